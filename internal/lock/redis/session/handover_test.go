package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
)

// A lock that was taken from its holder is passed on for a moment to a waiter of the
// same process. Before the waiter hears of it, the former holder releases. That is no
// hand-over by the release: it says that the lock was lost, and the waiter believes in
// no longer lease than Redis has.
func TestReleaseOfLostLockIsNoHandOver(t *testing.T) {
	for name, create := range map[string]maker{"reentrant": newReentrant, "fenced": newFenced} {
		t.Run(name, func(t *testing.T) {
			server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
			p, network := process(t, server, create, session.Config{Prefix: prefix})
			operator := start(t, server, create, session.Config{Prefix: prefix})
			former := acquire(t.Context(), t, p, lock.Options{})
			waiting := lock.Async(t.Context(), p, key, lock.Options{Wait: time.Minute})
			queued(t, operator, 1)
			letGo := hold(t, &network.messagesHeld)
			if freed, err := operator.ForceRelease(t.Context(), key); !freed || err != nil {
				t.Fatalf("ForceRelease = %v, %v", freed, err)
			}
			if err := former.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release of a lock that was taken away = %v, want ErrLost", err)
			}
			letGo()
			w := leaseOf(t, waiting)
			if believed, kept := w.Remaining(), pttl(t, server, prefix, name); believed > kept+slack {
				t.Errorf("the waiter believes in %v, Redis has %v", believed, kept)
			}
			release(t, w)
		})
	}
}

// A lease that ran out is not given back, whoever of two processes has the lock by then.
func TestReleaseOfExpiredLease(t *testing.T) {
	for name, create := range all() {
		t.Run(name, func(t *testing.T) {
			server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
			p := start(t, server, create, session.Config{Prefix: prefix})
			q := start(t, server, create, session.Config{Prefix: prefix})
			for round := range 12 {
				const ttl = 40 * time.Millisecond
				h := acquire(t.Context(), t, p, lock.Options{TTL: ttl})
				over := time.Now().Add(ttl + time.Duration(1+round%4)*time.Millisecond)
				first := lock.Async(t.Context(), p, key, lock.Options{Wait: time.Minute})
				second := lock.Async(t.Context(), q, key, lock.Options{Wait: time.Minute})
				time.Sleep(time.Until(over))
				if err := h.Release(t.Context()); !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrExpired) {
					t.Errorf("Release after the end of the lease = %v, want ErrLost or ErrExpired", err)
				}
				for range 2 { // whichever has it first
					select {
					case r := <-first:
						first = nil
						believes(t, r, server, prefix, name)
					case r := <-second:
						second = nil
						believes(t, r, server, prefix, name)
					}
				}
			}
		})
	}
}

// believes checks a lease against what Redis has of it, and gives it back.
func believes(t *testing.T, r lock.Result, server *testkit.RedisServer, prefix, name string) {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if believed, kept := r.Lease.Remaining(), pttl(t, server, prefix, name); believed > kept+slack {
		t.Errorf("the next holder believes in %v, Redis has %v", believed, kept)
	}
	release(t, r.Lease)
}

// A waiter's limit ends while an attempt of its own is under way, and the lock is
// handed to it meanwhile. Nobody will use what it was handed, so it is given back:
// whether the attempt, which was refused before that, is answered soon or never.
func TestHandOverDuringLastAttempt(t *testing.T) {
	const wait = 700 * time.Millisecond
	for answer, after := range map[string]time.Duration{"answered": 20 * time.Millisecond, "not answered": time.Minute} {
		for name, create := range all() {
			t.Run(answer+"/"+name, func(t *testing.T) {
				t.Parallel()
				server := testkit.Redis(t)
				config := session.Config{Prefix: testkit.KeyPrefix(t), PlaceTimeout: 300 * time.Millisecond}
				p, network := process(t, server, create, config)
				observer := start(t, server, create, config)
				h := acquire(t.Context(), t, p, lock.Options{TTL: time.Minute})
				limit := time.Now().Add(wait)
				waiting := lock.Async(t.Context(), p, key, lock.Options{Wait: wait, TTL: time.Minute})
				queued(t, observer, 1)
				asked := network.stopReply(t, attempt) // the waiter looks at the lock again
				select {
				case <-asked.reached:
				case r := <-waiting:
					t.Fatalf("the waiter did not ask again: %v", r.Err)
				}
				defer time.AfterFunc(time.Until(limit)+after, asked.letGo).Stop()
				release(t, h)
				if r := result(t, waiting); r.Err == nil {
					t.Fatal("the waiter has the lock although its last attempt has no answer yet")
				}
				until(t, "a free lock", 2*time.Second, func() bool { return inspect(t, observer).Owner == "" })
			})
		}
	}
}

// Two waiters of one owner in two processes. The attempt of the second finds the lock
// free and passes it on to the first, who was here before; being the same owner it
// then re-enters, and does not overwrite the lease of the first.
func TestPassedOnLeaseIsNotOverwritten(t *testing.T) {
	for name, create := range map[string]maker{"reentrant": newReentrant, "fenced": newFenced} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
			p, network := process(t, server, create, session.Config{Prefix: prefix})
			q := start(t, server, create, session.Config{Prefix: prefix})
			other := start(t, server, create, session.Config{Prefix: prefix})
			acquire(t.Context(), t, other, lock.Options{TTL: time.Minute}).Abandon()
			ctx := lock.WithOwner(t.Context(), "one owner")
			first := lock.Async(ctx, p, key, lock.Options{Wait: time.Minute})
			queued(t, other, 1)
			// Each of them asks once a second. The second shall be the one that finds the
			// lock free, and the first have asked so lately that it trusts what it is told.
			time.Sleep(600 * time.Millisecond)
			second := lock.Async(ctx, q, key, lock.Options{Wait: time.Minute})
			queued(t, other, 2)
			asked := network.stopReply(t, attempt)
			<-asked.reached
			asked.letGo()
			if err := server.Client(t).Del(t.Context(), redisio.Key(prefix, name, key, "")).Err(); err != nil {
				t.Fatal(err)
			}
			b := leaseOf(t, second)
			a := leaseOf(t, first)
			if state := inspect(t, other); state.Owner != "one owner" || state.Count != 2 {
				t.Errorf("Inspect = %+v, want two leases of one owner", state)
			}
			release(t, b)
			if _, err := other.Acquire(t.Context(), key, lock.Options{}); !errors.Is(err, lock.ErrNotAcquired) {
				t.Errorf("Acquire of what the first lease still holds = %v, want ErrNotAcquired", err)
			}
			release(t, a)
		})
	}
}

// An extension that makes a lease shorter may have been carried out although its reply
// was lost. The holder then believes in no more than that.
func TestShorteningWithoutReply(t *testing.T) {
	for name, create := range all() {
		t.Run(name, func(t *testing.T) {
			const short = 200 * time.Millisecond
			p, network := process(t, testkit.Redis(t), create, session.Config{Prefix: testkit.KeyPrefix(t)})
			held := acquire(t.Context(), t, p, lock.Options{TTL: time.Minute})
			reply := network.stopReply(t, renewal)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-reply.reached
				cancel()
			}()
			sent := time.Now()
			if err := held.Extend(ctx, short); !errors.Is(err, lock.ErrUnavailable) {
				t.Errorf("Extend without a reply = %v, want ErrUnavailable", err)
			}
			if left := held.Remaining(); left > short {
				t.Errorf("the holder believes in %v", left)
			}
			reply.letGo()
			select {
			case <-held.Lost():
			case <-time.After(5 * time.Second):
				t.Error("the holder was not told that its lease is over")
			}
			if took := time.Since(sent); took > short+slack {
				t.Errorf("the holder was told after %v", took)
			}
		})
	}
}

// A process that dies between the grant and the reply leaves the lock taken, also
// where it had waited for it.
func TestAbandonAfterWait(t *testing.T) {
	for name, create := range all() {
		for _, where := range []string{"same process", "other process"} {
			t.Run(name+"/"+where, func(t *testing.T) {
				server, config := testkit.Redis(t), session.Config{Prefix: testkit.KeyPrefix(t)}
				p, q := start(t, server, create, config), start(t, server, create, config)
				holder := q
				if where == "same process" {
					holder = p
				}
				h := acquire(t.Context(), t, holder, lock.Options{})
				dies, err := lock.NewFaults([]lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectAbandon}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				ctx := lock.WithOwner(t.Context(), "the one who dies")
				waiting := lock.Async(ctx, p, key, lock.Options{Wait: time.Minute, Faults: dies})
				queued(t, q, 1)
				release(t, h)
				if r := result(t, waiting); !errors.Is(r.Err, lock.ErrAbandoned) {
					t.Fatalf("Acquire = %v, want ErrAbandoned", r.Err)
				}
				if state := inspect(t, q); state.Owner != "the one who dies" {
					t.Errorf("the lock is held by %q, want it to stay with the one who died", state.Owner)
				}
			})
		}
	}
}

// An attempt whose reply is lost is repeated. It may have taken a place in the list
// already, and the repetition takes no second one: the lock would be passed on to a
// waiter who has had it.
func TestRepeatedAttemptTakesOnePlace(t *testing.T) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	client, queue := server.Client(t), redisio.Key(prefix, "reentrant", key, "queue")
	p, network := process(t, server, newReentrant, session.Config{Prefix: prefix, CommandTimeout: 200 * time.Millisecond})
	q := start(t, server, newReentrant, session.Config{Prefix: prefix})
	h := acquire(t.Context(), t, q, lock.Options{})
	isWaiter := func(args []any) bool { return attempt(args) && args[len(args)-4] != "" }
	lost := network.stopReply(t, isWaiter)
	waiting := lock.Async(t.Context(), p, key, lock.Options{Wait: time.Minute})
	<-lost.reached
	repeated := network.stopReply(t, isWaiter)
	<-repeated.reached
	repeated.letGo()
	if places := client.LRange(t.Context(), queue, 0, -1).Val(); len(places) != 1 {
		t.Errorf("the queue is %q, want one place", places)
	}
	release(t, h)
	release(t, leaseOf(t, waiting))
	if state := inspect(t, q); state.Owner != "" {
		t.Errorf("the lock was passed on to %q, who has given it back", state.Owner)
	}
}
