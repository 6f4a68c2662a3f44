package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Clock is the wall clock of one redis-server, which a test may set wrong. The clock by which the server measures how
// long things take is left alone, as it is when an operator or NTP sets a machine's time.
type Clock struct {
	t    TB
	file string // what libfaketime reads at every look at the clock
}

const faketimeHow = "apt-get install faketime, or make infra"

// NewRedisWithClock starts a redis-server for this test alone, as NewRedis does, whose clock is right until the test
// changes it. It skips the test where libfaketime is not installed.
func NewRedisWithClock(t TB, args ...string) (*RedisServer, *Clock) {
	t.Helper()
	library, err := faketime()
	check(t, err)
	path, err := lookUp("redis-server", redisHow)
	check(t, err)
	dir, remove, err := binary.folder("")
	check(t, err)
	clock := &Clock{t: t, file: filepath.Join(dir, "clock")}
	clock.Jump(0)
	// A script in the server's place sets the environment; exec keeps the process id. The C library comes along so that
	// memory comes from it: jemalloc looks at the clock before libfaketime is ready, and both give up.
	wrapper := filepath.Join(dir, "redis-server")
	script := fmt.Sprintf("#!/bin/sh\nTZ=UTC FAKETIME_TIMESTAMP_FILE='%s' FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 LD_PRELOAD='%s:libc.so.6' exec '%s' \"$@\"\n",
		clock.file, library, path)
	check(t, os.WriteFile(wrapper, []byte(script), 0o700))

	s := &redisProcess{path: wrapper, dir: dir, remove: remove, options: redisOptions{extra: args}}
	err = withFreePort(func(port int) error {
		s.port = port
		return s.restart()
	}, s.options.above()...)
	if err != nil {
		check(t, errors.Join(fmt.Errorf("start redis-server with a clock: %w", err), remove()))
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Errorf("testkit: stop redis-server: %v", err)
		}
	})
	return &RedisServer{t: t, process: s}, clock
}

// Jump sets the clock d ahead of the right time, or behind it, from where it goes on at the right speed.
func (c *Clock) Jump(d time.Duration) {
	c.t.Helper()
	c.set(fmt.Sprintf("%+.3f", d.Seconds()))
}

// Stick stops the clock: it shows this second from here on.
func (c *Clock) Stick() {
	c.t.Helper()
	c.set(time.Now().UTC().Format(time.DateTime))
}

// set replaces the file in one step, since the server may read it at any moment.
func (c *Clock) set(text string) {
	c.t.Helper()
	check(c.t, os.WriteFile(c.file+".new", []byte(text+"\n"), 0o600))
	check(c.t, os.Rename(c.file+".new", c.file))
}

// faketime finds the library. The one for programs with threads: redis-server has some.
func faketime() (string, error) {
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", &MissingError{Server: "libfaketime", How: faketimeHow}
}
