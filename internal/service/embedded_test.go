package service_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"seckill/test/harness"
)

// The embedded service listens on two sockets only, that of the API and that of the payment sandbox: its Redis and its
// database have none.
func TestEmbeddedServiceListensOnlyForHTTP(t *testing.T) {
	before := listeners(t)
	s := harness.StartInProcess(t, nil, nil)
	if n := listeners(t) - before; n != 2 {
		t.Errorf("%d more listening sockets, want the API's and the sandbox's", n)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

// listeners counts the listening TCP sockets of this process, as /proc reports them.
func listeners(t *testing.T) (n int) {
	t.Helper()
	const listening = "0A"
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			t.Skipf("not known on this system: %v", err)
		}
		text, err := io.ReadAll(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening {
				inodes[fmt.Sprintf("socket:[%s]", f[9])] = true
			}
		}
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && inodes[target] {
			n++
		}
	}
	return n
}
