package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// MissingError means that a program is not installed. How is how to install it.
type MissingError struct {
	Server string
	How    string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s not found on PATH: %s", e.Server, e.How)
}

// Installed returns nil if the server is installed, so that a test that needs it would run here, else an error, such as
// a
// *[MissingError]. It starts no server. The names are "redis-server", "valkey-server" (9 or later), "mariadbd", "galera",
// "mysqld" (MySQL's own), "vtcombo", "zookeeper" and "libfaketime".
func Installed(server string) error {
	var err error
	switch server {
	case "redis-server":
		_, err = lookUp("redis-server", redisHow)
	case "valkey-server":
		_, err = valkey()
	case "mariadbd":
		_, err = mariaDB{}.locate()
	case "galera":
		_, err = galeraProvider()
	case "mysqld":
		_, err = mySQL{}.locate()
	case "vtcombo":
		_, err = vitessProgram("vtcombo")
	case "zookeeper":
		_, _, err = locateZooKeeper()
	case "libfaketime":
		_, err = faketime()
	default:
		err = fmt.Errorf("testkit: unknown server %q", server)
	}
	return err
}

// check fails the test on an error. It skips a test that belongs to another tier. If a server is not installed it skips
// the test, unless REQUIRE_INFRA=1.
func check(t TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if errors.Is(err, errTier) {
		t.Skipf("%v", err)
	}
	if _, missing := errors.AsType[*MissingError](err); missing {
		if os.Getenv("REQUIRE_INFRA") == "1" {
			t.Fatalf("%v (REQUIRE_INFRA=1 forbids skipping)", err)
		}
		t.Skipf("%v", err)
	}
	t.Fatalf("testkit: %v", err)
}

// Require ends the test if err, of [Installed] for instance, is not nil: it fails the test, or skips it if a program is
// not installed and REQUIRE_INFRA=1 is not set.
func Require(t TB, err error) {
	t.Helper()
	check(t, err)
}

// Tool returns the path of a program that a test runs, under the first of its names that is installed. If none is, the
// test is skipped, unless REQUIRE_INFRA=1. The parameter how says how to install it.
func Tool(t TB, how string, names ...string) string {
	t.Helper()
	check(t, allowed())
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	check(t, &MissingError{Server: names[0], How: how})
	return ""
}

// lookUp finds a server's program on the PATH, or in the folders for servers, which a user's PATH often lacks.
func lookUp(name, how string) (string, error) {
	if err := allowed(); err != nil {
		return "", err
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &MissingError{Server: name, How: how}
}
