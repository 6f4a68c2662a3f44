//go:build unix

package testkit_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A child starts servers and dies. Nothing of them is left.
func TestNothingIsLeftOfADeadTestBinary(t *testing.T) {
	for _, end := range []string{"panic", "kill", "exit", "kill without a shell"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			var env []string
			if strings.HasSuffix(end, "without a shell") {
				env = append(env, "PATH="+onlyRedis(t))
			}
			out, err := runChild(t, end, env...)
			if err == nil {
				t.Error("the child ended normally, want an abnormal end")
			}
			left := regexp.MustCompile(`(?m)^left process (\d+) in (.+)$`).FindAllStringSubmatch(out, -1)
			if len(left) != 3 {
				t.Fatalf("the child started %d processes, want 3; it printed:\n%s", len(left), out)
			}
			for _, server := range left {
				waitGone(t, server[1])
				waitRemoved(t, server[2])
			}
		})
	}
}

// onlyRedis returns a folder with redis-server and no other program.
func onlyRedis(t *testing.T) string {
	t.Helper()
	testkit.Redis(t) // skips where it is not installed
	path, err := osexec.LookPath("redis-server")
	if err != nil {
		t.Skipf("redis-server is not in the PATH: %v", err)
	}
	folder := t.TempDir()
	fail.NowIf(t, os.Symlink(path, filepath.Join(folder, "redis-server")))
	return folder
}

// A stopwatch does not count the time in which its process is paused.
func TestStopwatchOfAPausedProcess(t *testing.T) {
	const pause = 400 * time.Millisecond
	child := testkit.StartChild(t, "stopwatch")
	child.WaitLine(t, "started")
	child.Pause()
	time.Sleep(pause)
	child.Resume()
	stood, err := time.ParseDuration(child.WaitLine(t, `stood still for (\S+)`)[1])
	fail.NowIf(t, err)
	if stood < pause-20*time.Millisecond {
		t.Errorf("of a pause of %v it saw %v", pause, stood)
	}
}

// measureAPause runs in a child: it measures until it was paused and goes on.
func measureAPause() int {
	resumed := testkit.NotifyResumed()
	began, s := time.Now(), testkit.StartStopwatch()
	fmt.Println("started")
	<-resumed
	took := time.Since(began)
	fmt.Println("stood still for", took-s.Stop())
	return 0
}

func waitGone(t *testing.T, pid string) {
	t.Helper()
	testkit.Until(t, "process "+pid+" to end", func() bool {
		// In a container whose first process does not reap orphans, a dead process stays as a zombie (Z).
		state, err := osexec.Command("ps", "-o", "state=", "-p", pid).Output()
		return err != nil || strings.HasPrefix(string(state), "Z")
	})
}

func waitRemoved(t *testing.T, dir string) {
	t.Helper()
	testkit.Until(t, dir+" to be removed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
}
