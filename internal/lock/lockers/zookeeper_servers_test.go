package lockers_test

import (
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/testkit"
)

func TestPassingInZooKeeper(t *testing.T) {
	servers := lockers.Servers{ZooKeeper: []string{testkit.ZooKeeper(t).Addr()}}
	one, other := open(t, servers, lockers.Config{}), open(t, servers, lockers.Config{})
	waiting := func(l lock.Locker) {
		testkit.Until(t, "a waiter", func() bool {
			state, err := l.(lock.Inspector).Inspect(t.Context(), "passed")
			return err == nil && state.Waiting == 1
		})
	}
	for _, waiter := range []*lockers.Set{one, other} {
		// The server keeps the queue, of all processes. Without a queue it does not matter whether somebody waits. A
		// waiter that was in the queue before it looked who is ahead of it may find nobody any more.
		testkit.Until(t, "a lock that its store passes on", func() bool {
			return pass(t, locker(t, one, "zk-queue"), locker(t, waiter, "zk-queue"), waiting) == lock.PassedByStore
		})
		mustPass(t, locker(t, one, "zk-node"), locker(t, waiter, "zk-node"), func(lock.Locker) {}, lock.FoundFree)
	}
}
