package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// missingError says that a server is not installed here.
type missingError struct {
	server string
	how    string // how to get it
}

func (e *missingError) Error() string {
	return fmt.Sprintf("%s not found on PATH: %s", e.server, e.how)
}

// check fails the test on an error. A server that is not installed skips it, unless REQUIRE_INFRA=1.
func check(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if _, missing := errors.AsType[*missingError](err); missing {
		if os.Getenv("REQUIRE_INFRA") == "1" {
			t.Fatalf("%v (REQUIRE_INFRA=1 forbids to skip)", err)
		}
		t.Skip(err)
	}
	t.Fatalf("testkit: %v", err)
}

// lookUp finds a server's program on the PATH, or in the folders for servers, which are often missing from a user's PATH.
func lookUp(name, how string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &missingError{server: name, how: how}
}
