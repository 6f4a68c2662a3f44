package lockers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// onOneServer is what happens to a mechanism when its Redis forgets.
type onOneServer struct {
	name string
	// renews reports that a watchdog renews the lease and tells the holder about a loss. The others have a fixed lease.
	renews bool
	// noExpiry reports that the lock never expires.
	noExpiry bool
	// wrongRelease reports that the release frees another holder's key: it does not compare the value, or the value is
	// the same in two processes.
	wrongRelease bool
}

func onOneRedis() (all []onOneServer) {
	for _, m := range lock.Catalogue() {
		if m.Store == lock.InRedis && m.Name != "uuid-wrong-key" { // which never releases
			all = append(all, onOneServer{
				name: m.Name, renews: m.Ends == lock.EndsUnlessRenewed, noExpiry: m.Ends == lock.EndsNever,
				wrongRelease: !m.Safe && m.Name != "uuid", // whose weakness is between two commands
			})
		}
	}
	return all
}

// Renewed leases last for watchdog, and are renewed after a third of it.
const watchdog, renewEvery = 30 * time.Second, 10 * time.Second

// lease asks for a lease that outlasts the test, fixed or renewed.
func (m onOneServer) lease() lock.Options {
	if m.renews {
		return lock.Options{}
	}
	return lock.Options{TTL: time.Hour}
}

// twoProcesses are lockers of a mechanism in two processes, on one Redis in this process.
type twoProcesses struct {
	onOneServer
	server        *simulate.Redis
	first, second lock.Locker
}

// inBubble runs fn in a bubble of time for each mechanism.
func inBubble(t *testing.T, fn func(t *testing.T, p twoProcesses)) {
	for _, m := range onOneRedis() {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := twoProcesses{onOneServer: m, server: simulate.NewRedis(t)}
				p.first, p.second = p.process(t), p.process(t)
				fn(t, p)
			})
		})
	}
}

func (p twoProcesses) process(t *testing.T) lock.Locker {
	t.Helper()
	set, err := lockers.Open(lockers.Servers{Redis: p.server.Client(t)}, lockers.Config{Watchdog: watchdog})
	fail.NowIf(t, err)
	t.Cleanup(func() {
		fail.If(t, set.Close())
	})
	l, err := set.Locker(p.name)
	fail.NowIf(t, err)
	return l
}

func mustAcquire(t *testing.T, l lock.Locker, key string, opts lock.Options) lock.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), key, opts)
	fail.NowIf(t, err, "Acquire(%q)", key)
	return held
}

// mustNotKnow fails the test if a holder already knows that it lost its lock: then there are not two holders.
func mustNotKnow(t *testing.T, held lock.Lease) {
	t.Helper()
	synctest.Wait()
	if err := context.Cause(held.Context()); err != nil || held.Remaining() <= 0 {
		t.Errorf("the holder already knows that it lost the lock (%v, %v left)", err, held.Remaining())
	}
}

// mustBeToldAfter checks that a holder is told of a loss this long after it was granted the lock, and not before.
func mustBeToldAfter(t *testing.T, held lock.Lease, granted time.Time, after time.Duration, want error) {
	t.Helper()
	<-held.Lost()
	fail.Unequal(t, time.Since(granted), after, "the holder was told after")
	fail.Unless(t, context.Cause(held.Context()), want, "the holder")
}

// The server forgets a lock: it comes back without its data, or a replica that never had the lock takes its place.
// There are two holders. A watchdog tells the first one at its next renewal. Without a watchdog nobody does, and at
// most the release does. Fencing tokens grow although their counter is gone, because they are drawn from the clock.
func TestServerForgets(t *testing.T) {
	inBubble(t, func(t *testing.T, p twoProcesses) {
		granted := time.Now()
		held := mustAcquire(t, p.first, "taken", p.lease())
		free := mustAcquire(t, p.first, "free", p.lease())
		simulate.Sleep(time.Second)
		p.server.Mini().FlushAll()
		second := mustAcquire(t, p.second, "taken", p.lease())
		mustNotKnow(t, held)
		if held.Token() > 0 && second.Token() <= held.Token() {
			t.Errorf("token %d after %d", second.Token(), held.Token())
		}
		if p.renews {
			mustBeToldAfter(t, held, granted, renewEvery, lock.ErrLost)
			mustBeToldAfter(t, free, granted, renewEvery, lock.ErrExpired)
			return
		}
		simulate.Sleep(time.Minute)
		mustNotKnow(t, held)
		err := held.Release(t.Context())
		if p.wrongRelease && err != nil || !p.wrongRelease && !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v; frees another holder's lock: %v", err, p.wrongRelease)
		}
		if left := p.server.Mini().Exists(redisio.Key("", p.name, "taken", "")); left == p.wrongRelease {
			t.Errorf("after the first holder's release the second one's key is there: %v", left)
		}
	})
}

// The server dies and comes back empty. A waiter gets the lock as soon as it asks again.
func TestWaiterOfAServerThatRestartsEmpty(t *testing.T) {
	inBubble(t, func(t *testing.T, p twoProcesses) {
		if !p.renews {
			return // those poll
		}
		held := mustAcquire(t, p.first, "seat", p.lease())
		waiting := acquirePatiently(t.Context(), p.second, "seat", simulate.Sleep)
		simulate.Sleep(time.Second)
		p.server.RestartEmpty()
		restarted := time.Now()
		fail.If(t, <-waiting)
		const queueEntryTTL = 3 * time.Second // the default: a waiter asks three times as often
		if took := time.Since(restarted); took > queueEntryTTL {
			t.Errorf("the waiter got the lock after %v", took)
		}
		<-held.Lost()
		fail.Unless(t, context.Cause(held.Context()), lock.ErrLost, "the first holder")
	})
}

// acquirePatiently acquires in the background. It tries again while the server is unavailable: a waiter gets that
// error, and trying again is up to the caller.
func acquirePatiently(ctx context.Context, l lock.Locker, key string, sleep func(time.Duration)) <-chan error {
	got := make(chan error, 1)
	go func() {
		for {
			_, err := l.Acquire(ctx, key, lock.Options{Wait: time.Hour})
			if !errors.Is(err, lock.ErrUnavailable) {
				got <- err
				return
			}
			sleep(5 * time.Millisecond)
		}
	}()
	return got
}

// The server's clock is set forward by more than a lease: every lease ends at once, and there are two holders.
func TestServersClockIsSetForward(t *testing.T) {
	inBubble(t, func(t *testing.T, p twoProcesses) {
		if p.noExpiry {
			return
		}
		granted := time.Now()
		held := mustAcquire(t, p.first, "seat", p.lease())
		p.server.Mini().SetTime(granted.Add(2 * time.Hour))
		_ = mustAcquire(t, p.second, "seat", p.lease())
		mustNotKnow(t, held)
		if p.renews {
			mustBeToldAfter(t, held, granted, renewEvery, lock.ErrLost)
		} else {
			simulate.Sleep(time.Minute)
			mustNotKnow(t, held)
		}
	})
}

// Fencing tokens grow although the server's clock is set back, and although their counter is lost. If both happen they
// do not: then writes are refused until the clock has caught up.
func TestTokensAndTheServersClock(t *testing.T) {
	inBubble(t, func(t *testing.T, p twoProcesses) {
		if p.name != "fenced" {
			return
		}
		began := time.Now()
		token := func() uint64 {
			held := mustAcquire(t, p.first, "seat", lock.Options{})
			fail.If(t, held.Release(t.Context()))
			return held.Token()
		}
		loseCounter := func() {
			if !p.server.Mini().Del(redisio.Key("", p.name, "seat", "") + ":token") {
				t.Fatal("there was no counter")
			}
		}
		first := token()
		p.server.Mini().SetTime(began.Add(-time.Hour / 2))
		second := token()
		p.server.Mini().SetTime(began.Add(time.Second))
		loseCounter()
		third := token()
		if first == 0 || second <= first || third <= second {
			t.Errorf("tokens %d, %d with a clock that was set back, %d without the counter; want them to grow", first, second, third)
		}
		loseCounter()
		p.server.Mini().SetTime(began.Add(-time.Hour / 2))
		if fourth := token(); fourth >= third {
			t.Errorf("token %d after %d with a clock that was set back and no counter: better than documented", fourth, third)
		}
	})
}
