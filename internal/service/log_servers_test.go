//go:build unix

package service_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A service whose log goes into a pipe sells on, and stops cleanly, when the pipe's reader hangs or goes away.
func TestNobodyReadsTheLog(t *testing.T) {
	testkit.Servers(t)
	for _, test := range []struct {
		name   string
		reader func(t *testing.T, pipe *os.File)
		signal os.Signal
	}{
		{"hangs", func(*testing.T, *os.File) {}, syscall.SIGTERM},
		{"is gone", func(t *testing.T, pipe *os.File) {
			fail.If(t, pipe.Close())
		}, syscall.SIGHUP},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			fail.NowIf(t, err)
			defer read.Close()
			// A pipe holds 64 KB; a refusal is a line of more than 100 bytes at this level.
			cmd := exec.CommandContext(t.Context(), harness.SelfPath(t))
			cmd.Env = append(os.Environ(), harness.AsService, "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LOG_LEVEL=debug")
			banner := filepath.Join(t.TempDir(), "banner")
			out, err := os.Create(banner)
			fail.NowIf(t, err)
			defer out.Close()
			cmd.Stdout, cmd.Stderr = out, write
			fail.NowIf(t, cmd.Start())
			write.Close()
			var order string
			testkit.Until(t, "the service greets", func() bool {
				text, _ := os.ReadFile(banner)
				for line := range strings.Lines(string(text)) {
					if at := strings.Index(line, "http://"); order == "" && strings.HasPrefix(line, "curl ") && at >= 0 {
						order = strings.TrimSpace(line[at:])
					}
				}
				return order != ""
			})
			test.reader(t, read)
			for user := range 1500 {
				request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, order, nil)
				request.Header.Set("X-User-ID", fmt.Sprint(1000+user))
				answer, err := http.DefaultClient.Do(request)
				fail.NowIf(t, err, "order %d", user)
				answer.Body.Close()
				if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusConflict && answer.StatusCode != http.StatusTooManyRequests {
					t.Fatalf("order %d: %s", user, answer.Status)
				}
			}
			fail.NowIf(t, cmd.Process.Signal(test.signal))
			err = cmd.Wait()
			// Its last lines are lost, and it says so with its exit code. Another signal would have killed it.
			if exit, failed := errors.AsType[*exec.ExitError](err); !failed || exit.ExitCode() != 1 {
				t.Errorf("the service ended with %v, want exit code 1", err)
			}
		})
	}
}
