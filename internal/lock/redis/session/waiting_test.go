package session_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A waiter that died has the first entry in the queue. Callers that come and go meanwhile, with a wait or without, do
// not keep that entry alive.
func TestDeadWaiterKeepsFreeLockBriefly(t *testing.T) {
	const place = 600 * time.Millisecond
	visits := map[string]struct {
		waits []time.Duration // of the callers, in turn
		pause time.Duration   // between them
	}{
		"long pauses, every second waits":         {[]time.Duration{0, 200 * time.Millisecond}, 500 * time.Millisecond},
		"long pauses, every second waits briefly": {[]time.Duration{0, 20 * time.Millisecond}, 500 * time.Millisecond},
		"all wait briefly":                        {[]time.Duration{20 * time.Millisecond}, 350 * time.Millisecond},
		"none waits":                              {[]time.Duration{0}, 50 * time.Millisecond},
	}
	for name, visit := range visits {
		bubble(t, name, func(t *testing.T) {
			server, config := simulate.NewRedis(t), session.Config{Prefix: "t:", QueueEntryTTL: place}
			p, q := start(t, server, newFair, config), start(t, server, newFair, config)
			h := acquire(t.Context(), t, q, lock.Options{})
			waiting := locktest.InBackground(t.Context(), p, key, lock.Options{Wait: time.Minute})
			queued(t, q, 1)
			if err := p.Close(); err != nil { // releases nothing, like a process that dies
				t.Fatal(err)
			}
			<-waiting
			release(t, h)
			began := time.Now()
			for i := 0; ; i++ {
				lease, err := q.Acquire(t.Context(), key, lock.Options{Wait: visit.waits[i%len(visit.waits)]})
				if err == nil {
					release(t, lease)
					break
				}
				simulate.Sleep(visit.pause)
			}
			if took := time.Since(began); took > 2*place+2*visit.pause+slack {
				t.Errorf("a dead waiter kept the free lock for %v, its entry lasts %v", took, place)
			}
		})
	}
}

// The queue of a fair lock lists the waiting owners of all processes in order.
func TestFairQueueNamesOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, config := simulate.NewRedis(t), session.Config{Prefix: "t:"}
		p, q := start(t, server, newFair, config), start(t, server, newFair, config)
		observer := start(t, server, newFair, config)
		h := acquire(t.Context(), t, p, lock.Options{})
		want := []lock.Owner{"first", "second with a blank", "third", "fourth"}
		var waiters sync.WaitGroup
		for i, owner := range want {
			waiters.Go(func() {
				l := []lock.Locker{p, q}[i%2]
				lease, err := l.Acquire(lock.WithOwner(t.Context(), owner), key, lock.Options{Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				release(t, lease)
			})
			queued(t, observer, i+1)
			simulate.Sleep(time.Millisecond) // two tickets of one microsecond would have no order
		}
		for _, l := range []lock.Inspector{p, q, observer} {
			if state := inspect(t, l); !slices.Equal(state.Queue, want) || state.Waiting != len(want) {
				t.Errorf("Inspect = %+v, want the queue %q", state, want)
			}
		}
		release(t, h)
		waiters.Wait()
	})
}

// startRW is process for the lock for readers and writers.
func startRW(t *testing.T, server *simulate.Redis, config session.Config) (*rw.Locker, *network) {
	t.Helper()
	m, n := process(t, server, newRW, config)
	return m.(*rw.Locker), n
}

// When a writer releases, all waiting readers get in before the next writer: also those of a process that receives the
// message late, after the readers of another process have come and gone.
func TestReadersGoBeforeNextWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, config := simulate.NewRedis(t), session.Config{Prefix: "t:"}
		a, _ := startRW(t, server, config)
		b, late := startRW(t, server, config)
		c, _ := startRW(t, server, config)
		observer, _ := startRW(t, server, config)
		const readers = 4
		for range 5 {
			h := acquire(t.Context(), t, a, lock.Options{})
			var mu sync.Mutex
			var order []string
			var done [2]sync.WaitGroup
			for i, l := range []*rw.Locker{a, b} {
				for range readers {
					done[i].Go(func() {
						lease, err := l.Reader().Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						order = append(order, "r")
						mu.Unlock()
						release(t, lease)
					})
				}
			}
			queued(t, observer, 2*readers)
			writer := locktest.InBackground(t.Context(), c, key, lock.Options{Wait: time.Minute})
			queued(t, observer, 2*readers+1)
			letGo := hold(t, &late.messagesHeld)
			release(t, h)
			done[0].Wait()
			letGo()
			w := leaseOf(t, writer)
			mu.Lock()
			fail.Unequal(t, len(order), 2*readers, "readers before the next writer")
			mu.Unlock()
			release(t, w)
			done[1].Wait()
		}
	})
}

// A reader whose process has died is not subscribed, and no writer waits for it.
func TestDeadReaderCostsNoTime(t *testing.T) {
	for _, living := range []int{0, 2} {
		bubble(t, fmt.Sprint(living, " readers live"), func(t *testing.T) {
			server, config := simulate.NewRedis(t), session.Config{Prefix: "t:"}
			a, _ := startRW(t, server, config)
			dead, _ := startRW(t, server, config)
			client := server.Client(t)
			h := acquire(t.Context(), t, a, lock.Options{})
			waiting := locktest.InBackground(t.Context(), dead.Reader(), key, lock.Options{Wait: time.Minute})
			queued(t, a, 1)
			_ = dead.Close()
			<-waiting
			until(t, "the end of its connection", func() bool {
				return len(client.PubSubChannels(t.Context(), config.Prefix+"*").Val()) == 0
			})
			var readers sync.WaitGroup
			for i := range living {
				readers.Go(func() {
					lease, err := a.Reader().Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
					if err != nil {
						t.Error(err)
						return
					}
					release(t, lease)
				})
				// The dead reader's entry counts, and so do those of the living.
				until(t, "a queued reader", func() bool { return inspect(t, a).Waiting >= i+2 })
			}
			writer := locktest.InBackground(t.Context(), a, key, lock.Options{Wait: time.Minute})
			until(t, "a queued writer", func() bool { return inspect(t, a).Waiting >= living+2 })
			began := time.Now()
			release(t, h)
			w := leaseOf(t, writer)
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("the writer waited %v for a dead reader", took)
			}
			release(t, w)
			readers.Wait()
		})
	}
}

// A server that hangs during a handover lets both sides run out of time: the release has no reply, and the next
// waiter's limit ends. Run with -race: both use the same acquisition. It leaves no lock behind.
func TestLimitEndsDuringHandover(t *testing.T) {
	for name, create := range all() {
		bubble(t, name, func(t *testing.T) {
			server := simulate.NewRedis(t)
			p := start(t, server, create, session.Config{CommandTimeout: 600 * time.Millisecond})
			observer := start(t, server, create, session.Config{})
			// If the release is lost too, this lease expires; the waiter's would not.
			h := acquire(t.Context(), t, p, lock.Options{TTL: 6 * time.Second})
			waiting := locktest.InBackground(t.Context(), p, key, lock.Options{Wait: 1500 * time.Millisecond})
			queued(t, observer, 1)
			server.Pause(2600 * time.Millisecond)
			_ = h.Release(t.Context()) // its outcome is unknown
			if r := result(t, waiting); r.Err == nil {
				t.Fatal("the waiter has the lock of a server that hangs")
			}
			until(t, "a free lock", func() bool {
				state, err := observer.Inspect(t.Context(), key)
				return err == nil && state.Owner == ""
			})
		})
	}
}

// A wait limit ends in time, whatever the server does: at most 250 ms go into the clean-up.
func TestWaitLimitOnServerThatHangs(t *testing.T) {
	for name, create := range all() {
		bubble(t, name, func(t *testing.T) {
			server := simulate.NewRedis(t)
			p, fresh := start(t, server, create, session.Config{}), start(t, server, create, session.Config{})
			observer := start(t, server, create, session.Config{})
			lock.Abandon(acquire(t.Context(), t, observer, lock.Options{TTL: time.Minute}))
			var callers sync.WaitGroup
			try := func(what string, l lock.Locker, key string, wait time.Duration) {
				callers.Go(func() {
					began := time.Now()
					_, err := l.Acquire(t.Context(), key, lock.Options{Wait: wait})
					if took := time.Since(began); err == nil || took > wait+350*time.Millisecond {
						t.Errorf("%s: a wait of %v ended after %v with %v", what, wait, took, err)
					}
				})
			}
			try("in the queue", p, key, 1200*time.Millisecond)
			queued(t, observer, 1)
			server.Pause(time.Hour)
			try("the very first attempt", fresh, "other", 100*time.Millisecond)
			try("the very first attempt", fresh, "third", 1200*time.Millisecond)
			try("an attempt of a process that has worked", p, "fourth", 100*time.Millisecond)
			callers.Wait()
			server.Resume()
		})
	}
}

// An acquisition that may wait, and whose context ends while the refusal of its first attempt is on its way, ends with
// the context's error: its wait was not over.
func TestContextEndsWithTheFirstRefusal(t *testing.T) {
	for name, create := range all() {
		bubble(t, name, func(t *testing.T) {
			server := simulate.NewRedis(t)
			config := session.Config{Prefix: "t:"}
			p, network := process(t, server, create, config)
			acquire(t.Context(), t, start(t, server, create, config), lock.Options{TTL: time.Minute})
			owned := lock.WithOwner(t.Context(), "buyer") // with an owner given, an acquisition asks before it waits
			refused := 0
			for n := range 100 {
				ctx, cancel := context.WithCancel(owned)
				asked := network.stopReply(t, func([]any) bool { return true })
				waiting := locktest.InBackground(ctx, p, key, lock.Options{Wait: time.Minute, TTL: time.Minute})
				<-asked.reached
				asked.letGo()
				for range n { // each round cancels a little later
					runtime.Gosched()
				}
				cancel()
				if err := result(t, waiting).Err; !errors.Is(err, context.Canceled) {
					refused++
				}
			}
			if refused > 0 {
				t.Errorf("%d of 100 cancelled acquisitions returned another error", refused)
			}
		})
	}
}
