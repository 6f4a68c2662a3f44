package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// In a control group the service limits Go's memory to nine tenths of the group's, unless GOMEMLIMIT says another.
func TestMemoryLimitIsOfTheControlGroup(t *testing.T) {
	const limit = 400 << 20
	group := newMemoryGroup(t, limit)
	for name, c := range map[string]struct {
		env  string
		want int64
	}{
		"the group's":     {"", limit / 10 * 9},
		"the environment": {"300MiB", 300 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.Start(t, testkit.Command{
				Path: "/bin/sh", Args: []string{"-c", `echo $$ > "$0" && exec "$1"`, filepath.Join(group, "cgroup.procs"), harness.SelfPath(t)},
				Env: []string{harness.AsService, "SECKILL_ADDR=127.0.0.1:0", "GOMEMLIMIT=" + c.env},
			})
			url := p.WaitLine(t, `(http://127\.0\.0\.1:\d+)`)[1]
			fail.Unequal(t, int64((harness.Process{Process: p, URL: url}).Metric(t, "go_gc_gomemlimit_bytes")), c.want, "go_gc_gomemlimit_bytes")
			fail.If(t, p.Stop())
		})
	}
}

// newMemoryGroup makes a control group, of version 1 or 2, with a limit of its memory, and returns its folder. It is
// removed after the processes in it have ended.
func newMemoryGroup(t *testing.T, limit int64) string {
	t.Helper()
	dir, file, err := memoryGroups()
	dir = filepath.Join(dir, fmt.Sprintf("seckill-test-%d", os.Getpid()))
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil { // nothing that can be installed helps, so REQUIRE_INFRA does not ask for it
		t.Skipf("a control group can be made on Linux, as root, where the memory controller is delegated: %v", err)
	}
	t.Cleanup(func() {
		testkit.Until(t, "the control group is empty", func() bool { return os.Remove(dir) == nil })
	})
	fail.NowIf(t, os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0))
	return dir
}

// memoryGroups returns the folder in which this process may make control groups, and their file of the limit.
func memoryGroups() (dir, file string, err error) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(self)) {
		// hierarchy:controllers:path
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && part[1] == "memory" {
			dir, file = filepath.Join("/sys/fs/cgroup/memory", part[2]), "memory.limit_in_bytes"
			if _, err := os.Stat(dir); err != nil { // in a container the path is the host's
				dir = "/sys/fs/cgroup/memory"
			}
			return dir, file, nil
		}
	}
	dir, file = "/sys/fs/cgroup", "memory.max"
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err == nil && !strings.Contains(string(controllers), "memory") {
		err = fmt.Errorf("%s/cgroup.subtree_control is %q, without memory", dir, controllers)
	}
	return dir, file, err
}
