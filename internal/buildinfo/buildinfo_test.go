package buildinfo

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"seckill/internal/testkit/fail"
)

func TestDescribe(t *testing.T) {
	build := func(module string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: module}, Settings: settings}
	}
	at := debug.BuildSetting{Key: "vcs.revision", Value: "abc"}
	changed := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	unchanged := debug.BuildSetting{Key: "vcs.modified", Value: "false"}
	for name, test := range map[string]struct {
		build           *debug.BuildInfo
		version, commit string
		want            Info
	}{
		"go build in a checkout":   {build("v0.0.0-1-abc", at, unchanged), "", "", Info{"v0.0.0-1-abc", "abc", "go1.26.1"}},
		"changed files":            {build("v0.0.0-1-abc+dirty", at, changed), "", "", Info{"v0.0.0-1-abc+dirty", "abc+dirty", "go1.26.1"}},
		"go run":                   {build("(devel)"), "", "", Info{"(devel)", "unknown", "go1.26.1"}},
		"an image, without git":    {build("(devel)"), "v1.2.3", "def", Info{"v1.2.3", "def", "go1.26.1"}},
		"the linker has the word":  {build("v0.0.0-1-abc", at), "v1.2.3", "def", Info{"v1.2.3", "def", "go1.26.1"}},
		"a test, without a module": {build(""), "", "", Info{"unknown", "unknown", "go1.26.1"}},
	} {
		fail.Unequal(t, describe(test.build, test.version, test.commit), test.want, "%s", name)
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
