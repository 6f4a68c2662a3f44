package idworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// inBubbleWithLocks runs fn in a synctest bubble, with a lock that has a fixed lease.
func inBubbleWithLocks(t *testing.T, fn func(t *testing.T, locker *reentrant.Locker)) {
	synctest.Test(t, func(t *testing.T) {
		locker, err := reentrant.New(simulate.NewRedis(t).Client(t), reentrant.Config{})
		fail.NowIf(t, err)
		defer locker.Close()
		fn(t, locker)
	})
}

func withLocks(t *testing.T, locker lock.Locker, cfg Config) *Sonyflake {
	t.Helper()
	s, err := NewSonyflakeWithLocks(t.Context(), locker, cfg)
	fail.NowIf(t, err)
	return s
}

// Several generators share the range, no two at the same time a machine id, and renewals keep what they have.
func TestMachineIDsAsLocks(t *testing.T) {
	inBubbleWithLocks(t, func(t *testing.T, locker *reentrant.Locker) {
		cfg := Config{Machines: 1, FirstMachine: 100, LastMachine: 102, start: bubbleStart}
		all := []*Sonyflake{withLocks(t, locker, cfg), withLocks(t, locker, cfg), withLocks(t, locker, cfg)}
		full, cancel := context.WithTimeout(t.Context(), 15*time.Second+time.Millisecond)
		defer cancel()
		if s, err := NewSonyflakeWithLocks(full, locker, cfg); !errors.Is(err, ErrNoLease) {
			t.Errorf("a fourth of three machine ids: %v, %v", s, err)
		}
		mintFromAll(t, all, 100, 101, 102)
		for _, s := range all {
			fail.If(t, s.Close(t.Context()))
		}
		again := withLocks(t, locker, cfg) // what was released is free at once
		fail.If(t, again.Close(t.Context()))
	})
}

// mintFromAll mints in turn and checks that the ids are unique and come from these machine ids.
func mintFromAll(t *testing.T, all []*Sonyflake, machines ...int64) {
	t.Helper()
	seen, used := unique{}, map[int64]bool{}
	for range 1000 {
		for _, s := range all {
			id := mustMint(t, s)
			seen.add(t, "one of them", id)
			used[id&0xffff] = true
		}
	}
	for _, machine := range machines {
		if !used[machine] {
			t.Errorf("machine id %d was not used", machine)
		}
	}
	if len(used) != len(machines) {
		t.Errorf("machine ids %v, want %v", used, machines)
	}
}

// A machine id whose lock is taken away is not used from the next renewal on, and another one is leased.
func TestMachineIDLocksAreReplaced(t *testing.T) {
	inBubbleWithLocks(t, func(t *testing.T, locker *reentrant.Locker) {
		cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 8, start: bubbleStart}
		s := withLocks(t, locker, cfg)
		first := mustMint(t, s) & 0xffff
		key := map[int64]string{7: "machine-id:7", 8: "machine-id:8"}[first]
		if freed, err := locker.ForceRelease(t.Context(), key); err != nil || !freed {
			t.Fatalf("ForceRelease(%q) = %v, %v", key, freed, err)
		}
		other, err := locker.Acquire(t.Context(), key, lock.Options{TTL: time.Minute})
		fail.NowIf(t, err)
		simulate.Sleep(cfg.withDefaults().Renewal)
		synctest.Wait()
		if machine := mustMint(t, s) & 0xffff; machine == first {
			t.Errorf("machine id %d is used although its lock was lost", machine)
		}
		fail.If(t, errors.Join(other.Release(t.Context()), s.Close(t.Context())))
	})
}
