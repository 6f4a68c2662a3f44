package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Clock is the wall clock of one redis-server, which a test can set wrong. The server's monotonic clock is not changed,
// as when an operator or NTP sets a machine's time.
type Clock struct {
	t    TB
	file string // libfaketime reads it each time the clock is read
}

const faketimeHow = "apt-get install faketime, or make infra"

// NewRedisWithClock starts a redis-server for this test alone, as NewRedis does, with a clock that is right until the
// test changes it. It skips the test if libfaketime is not installed.
func NewRedisWithClock(t TB, args ...string) (*RedisServer, *Clock) {
	t.Helper()
	library, err := faketime()
	check(t, err)
	dir, remove, err := binary.folder("")
	check(t, err)
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Errorf("testkit: remove a clock: %v", err)
		}
	})
	clock := &Clock{t: t, file: filepath.Join(dir, "clock")}
	clock.Jump(0)
	// The C library is preloaded, too, so that it allocates the memory: jemalloc reads the clock before libfaketime is
	// ready, and both fail.
	return NewRedisEnv(t, []string{
		"TZ=UTC", "FAKETIME_TIMESTAMP_FILE=" + clock.file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
		"LD_PRELOAD=" + library + ":libc.so.6",
	}, args...), clock
}

// Jump sets the clock ahead of the right time by d (behind it if d is negative). It runs at the right speed.
func (c *Clock) Jump(d time.Duration) {
	c.t.Helper()
	c.set(fmt.Sprintf("%+.3f", d.Seconds()))
}

// Drift makes the clock run faster than the right time by thousandths: 10 is one percent. The time at which it is set
// counts as well, since the server's start.
func (c *Clock) Drift(thousandths int) {
	c.t.Helper()
	c.set(fmt.Sprintf("+0 x%.3f", 1+float64(thousandths)/1000))
}

// Stick stops the clock at the current second.
func (c *Clock) Stick() {
	c.t.Helper()
	c.set(time.Now().UTC().Format(time.DateTime))
}

// set replaces the file atomically, because the server may read it at any moment.
func (c *Clock) set(text string) {
	c.t.Helper()
	check(c.t, os.WriteFile(c.file+".new", []byte(text+"\n"), 0o600))
	check(c.t, os.Rename(c.file+".new", c.file))
}

// faketime finds the library for programs with threads, which redis-server has.
func faketime() (string, error) {
	if err := allowed(); err != nil {
		return "", err
	}
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", &MissingError{Server: "libfaketime", How: faketimeHow}
}
