package buildinfo

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"seckill/internal/testkit/fail"
)

func TestDescribe(t *testing.T) {
	build := func(settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.1", Settings: settings}
	}
	at := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	unchanged := debug.BuildSetting{Key: "vcs.modified", Value: "false"}
	for name, test := range map[string]struct {
		build        *debug.BuildInfo
		commit, want string
	}{
		"go build in a checkout":  {build(at, unchanged), "", "abc"},
		"changed files":           {build(at, changed), "", "abc+dirty"},
		"go run":                  {build(), "", "unknown"},
		"an image, without git":   {build(), "def", "def"},
		"the linker has the word": {build(at), "def", "def"},
	} {
		fail.Unequal(t, describe(test.build, test.commit), Info{Version, test.want, "go1.26.1"}, "%s", name)
	}
}

func TestMetric(t *testing.T) {
	const want = `
# HELP seckill_build_info The build that the process runs; always 1.
# TYPE seckill_build_info gauge
seckill_build_info{commit="def",go_version="go1.26.1",version="v1.2.3"} 1
`
	fail.If(t, testutil.CollectAndCompare(Info{"v1.2.3", "def", "go1.26.1"}.Metric(), strings.NewReader(want)))
}
