package testkit

import (
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/simulate"
)

// ServersVar is the environment variable that lets tests start processes, listen on ports and use real servers:
// SECKILL_TEST_SERVERS=1. make test and make soak set it. Without it, go test ./... needs Go alone: a test that asks
// this package for a server, a proxy or another process is skipped.
const ServersVar = "SECKILL_TEST_SERVERS"

// errTier means that a test belongs to make test.
var errTier = errors.New("needs real servers or processes: make test runs it, or " + ServersVar + "=1")

// Servers skips the test unless tests may use real servers and other processes.
func Servers(t TB) {
	t.Helper()
	check(t, allowed())
}

// allowed returns errTier in a test that may not start a process. The laboratory always may, and so may what runs with
// -bench: a benchmark was asked for by name.
func allowed() error {
	if testing.Testing() && os.Getenv(ServersVar) != "1" && flag.Lookup("test.bench").Value.String() == "" {
		return errTier
	}
	return nil
}

// AnyRedis returns the options of a client for a Redis that holds nothing under a prefix of [KeyPrefix]: in make test
// the redis-server that all tests of this binary share, in go test a new one in this process. A test that uses it
// depends on no time. One that does belongs in a bubble of testing/synctest, with [simulate.NewRedis].
func AnyRedis(t TB) *redis.Options {
	t.Helper()
	if allowed() != nil {
		return simulate.NewRedis(t).Options()
	}
	return &redis.Options{Addr: Redis(t).Addr()}
}
