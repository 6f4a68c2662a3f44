package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// An operator takes a lock from its holder, and it is granted briefly to a waiter of the same process. The former
// holder releases before the waiter is notified. That release is no handover: it returns that the lock was lost, and
// the waiter does not assume a longer lease than Redis has.
func TestReleaseOfLostLockIsNoHandover(t *testing.T) {
	for name, create := range map[string]maker{"reentrant": newReentrant, "fenced": newFenced} {
		bubble(t, name, func(t *testing.T) {
			server, prefix := simulate.NewRedis(t), "t:"
			p, network := process(t, server, create, session.Config{Prefix: prefix})
			operator := start(t, server, create, session.Config{Prefix: prefix})
			former := acquire(t.Context(), t, p, lock.Options{})
			waiting := locktest.InBackground(t.Context(), p, key, lock.Options{Wait: time.Minute})
			queued(t, operator, 1)
			letGo := hold(t, &network.messagesHeld)
			if freed, err := operator.ForceRelease(t.Context(), key); !freed || err != nil {
				t.Fatalf("ForceRelease = %v, %v", freed, err)
			}
			fail.Unless(t, former.Release(t.Context()), lock.ErrLost, "Release of a lock that was taken away")
			letGo()
			w := leaseOf(t, waiting)
			if kept, assumed := pttl(t, server, prefix, name), w.Remaining(); assumed > kept+slack {
				t.Errorf("the waiter assumes %v, Redis has %v", assumed, kept)
			}
			release(t, w)
		})
	}
}

// A waiter's limit ends while an attempt of its own is under way, and the lock is handed to it meanwhile. Nobody will
// use the lock, so it is released: whether the reply to the attempt, which is a refusal, arrives soon or never.
func TestHandoverDuringLastAttempt(t *testing.T) {
	const wait = 700 * time.Millisecond
	for answer, after := range map[string]time.Duration{"answered": 20 * time.Millisecond, "not answered": time.Minute} {
		for name, create := range all() {
			bubble(t, answer+"/"+name, func(t *testing.T) {
				server := simulate.NewRedis(t)
				config := session.Config{Prefix: "t:", QueueEntryTTL: 300 * time.Millisecond}
				p, network := process(t, server, create, config)
				observer := start(t, server, create, config)
				h := acquire(t.Context(), t, p, lock.Options{TTL: time.Minute})
				waiting := locktest.InBackground(t.Context(), p, key, lock.Options{Wait: wait, TTL: time.Minute})
				queued(t, observer, 1)
				limit := time.Now().Add(wait)          // the waiter's own ends a little earlier
				asked := network.stopReply(t, attempt) // the waiter asks again
				select {
				case <-asked.reached:
				case r := <-waiting:
					t.Fatalf("the waiter did not ask again: %v", r.Err)
				}
				defer time.AfterFunc(time.Until(limit)+after, asked.letGo).Stop()
				release(t, h)
				if r := result(t, waiting); r.Err == nil {
					t.Fatal("the waiter has the lock although its last attempt has no reply yet")
				}
				until(t, "a free lock", func() bool { return inspect(t, observer).Owner == "" })
			})
		}
	}
}

// A waiter's attempt is granted a lock that it then fails to return, while a release that hands over nothing is under
// way in its process. The waiter has left when the reply to that release arrives, and what its own attempt was granted
// is released all the same.
func TestGrantIsReleasedAfterFailedHandover(t *testing.T) {
	fails, err := lock.NewFaults([]lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectError}}, nil)
	fail.NowIf(t, err)
	for name, create := range all() {
		bubble(t, name, func(t *testing.T) {
			server, config := simulate.NewRedis(t), session.Config{Prefix: "t:", CommandTimeout: time.Minute}
			p, network := process(t, server, create, config)
			observer := start(t, server, create, config)
			h := acquire(t.Context(), t, p, lock.Options{})
			asks := network.stopCommand(t, waiterAttempt)
			waiting := locktest.InBackground(lock.WithFaults(t.Context(), fails), p, key, lock.Options{Wait: time.Minute, TTL: time.Hour})
			<-asks.reached
			// The lock is gone, so the release hands over nothing, and its reply is late.
			fail.NowIf(t, server.Client(t).Del(t.Context(), redisio.Key(config.Prefix, name, key, "")).Err())
			releases, releaseEnded := network.stopReply(t, releasing), make(chan error, 1)
			go func() { releaseEnded <- h.Release(t.Context()) }()
			<-releases.reached
			leaves := network.stopReply(t, leaving)
			asks.letGo()
			<-leaves.reached
			releases.letGo()
			fail.Unless(t, <-releaseEnded, lock.ErrExpired, "Release of a lock that is gone")
			leaves.letGo()
			if r := result(t, waiting); !errors.Is(r.Err, lock.ErrInjected) {
				t.Errorf("Acquire = %v, want ErrInjected", r.Err)
			}
			until(t, "a free lock", func() bool { return inspect(t, observer).Owner == "" })
		})
	}
}

// Two waiters of one owner in two processes. The attempt of the second finds the lock free and grants it to the first,
// which came earlier. As the same owner the second then re-enters, and does not overwrite the lease of the first.
func TestGrantedLeaseIsNotOverwritten(t *testing.T) {
	for name, create := range map[string]maker{"reentrant": newReentrant, "fenced": newFenced} {
		bubble(t, name, func(t *testing.T) {
			server, prefix := simulate.NewRedis(t), "t:"
			p, network := process(t, server, create, session.Config{Prefix: prefix})
			q := start(t, server, create, session.Config{Prefix: prefix})
			other := start(t, server, create, session.Config{Prefix: prefix})
			lock.Abandon(acquire(t.Context(), t, other, lock.Options{TTL: time.Minute}))
			ctx := lock.WithOwner(t.Context(), "one owner")
			first := locktest.InBackground(ctx, p, key, lock.Options{Wait: time.Minute})
			queued(t, other, 1)
			// Each of them asks once a second. The second has to find the lock free, and the first must have asked so
			// recently that it trusts the message.
			simulate.Sleep(600 * time.Millisecond)
			second := locktest.InBackground(ctx, q, key, lock.Options{Wait: time.Minute})
			queued(t, other, 2)
			asked := network.stopReply(t, attempt)
			<-asked.reached
			asked.letGo()
			fail.NowIf(t, server.Client(t).Del(t.Context(), redisio.Key(prefix, name, key, "")).Err())
			b := leaseOf(t, second)
			a := leaseOf(t, first)
			if state := inspect(t, other); state.Owner != "one owner" || state.Count != 2 {
				t.Errorf("Inspect = %+v, want two leases of one owner", state)
			}
			release(t, b)
			fail.Unless(t, fail.Of(other.Acquire(t.Context(), key, lock.Options{})), lock.ErrNotAcquired, "Acquire of what the first lease still holds")
			release(t, a)
		})
	}
}

// A message that grants the lock is late: the grant has ended, another holds the lock, and the waiter has asked and was
// refused meanwhile. It does not take its last refusal for one from before the grant, also where the reply to the first
// of them was lost.
func TestLateMessageMakesNoSecondHolder(t *testing.T) {
	for what, lost := range map[string]bool{"answered": false, "not answered": true} {
		for name, create := range map[string]maker{"reentrant": newReentrant, "fenced": newFenced} {
			bubble(t, what+"/"+name, func(t *testing.T) {
				server, prefix := simulate.NewRedis(t), "t:"
				client, config := server.Client(t), session.Config{Prefix: prefix, CommandTimeout: time.Minute}
				p, network := process(t, server, create, config)
				q := start(t, server, create, config)
				h := acquire(t.Context(), t, q, lock.Options{})
				waiting := locktest.InBackground(t.Context(), p, key, lock.Options{Wait: time.Minute})
				queued(t, q, 1)
				until(t, "a subscription", func() bool {
					return len(client.PubSubChannels(t.Context(), prefix+"*").Val()) == 1
				})
				commandsGo, messagesGo := hold(t, &network.commandsHeld), hold(t, &network.messagesHeld)
				release(t, h) // grants the lock to the waiter
				// Once that grant has ended.
				other := acquire(t.Context(), t, q, lock.Options{Wait: time.Minute, TTL: time.Minute})
				// A second waiter of the process knows only what the first was told.
				refused := func(longerThan time.Duration) {
					until(t, "a refusal", func() bool {
						_, err := p.Acquire(t.Context(), key, lock.Options{Wait: 10 * time.Millisecond})
						refusal, ok := errors.AsType[*lock.NotAcquiredError](err)
						return ok && refusal.Holder == other.Owner() && refusal.TTL > longerThan
					})
				}
				if lost {
					network.loseReply(t, attempt)
				}
				commandsGo()
				refused(0) // of an attempt that began before the other had the lock
				fail.NowIf(t, other.Extend(t.Context(), time.Hour))
				refused(time.Minute)
				asked := network.stopReply(t, attempt)
				messagesGo()
				select {
				case r := <-waiting:
					t.Fatalf("Acquire = %v while another holds the lock", r.Err)
				case <-asked.reached:
					asked.letGo()
				}
				release(t, other)
				w := leaseOf(t, waiting)
				fail.Unequal(t, inspect(t, q).Owner, w.Owner(), "the holder")
				release(t, w)
			})
		}
	}
}

// An extension that shortens a lease may have been carried out although its reply was lost. The holder then assumes no
// more than the shorter lease.
func TestShorteningWithoutReply(t *testing.T) {
	for name, create := range all() {
		bubble(t, name, func(t *testing.T) {
			const short = 200 * time.Millisecond
			p, network := process(t, simulate.NewRedis(t), create, session.Config{Prefix: "t:"})
			held := acquire(t.Context(), t, p, lock.Options{TTL: time.Minute})
			reply := network.stopReply(t, renewal)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-reply.reached
				cancel()
			}()
			began := time.Now()
			fail.Unless(t, held.Extend(ctx, short), lock.ErrUnavailable, "Extend without a reply")
			if left := held.Remaining(); left > short {
				t.Errorf("the holder assumes %v", left)
			}
			reply.letGo()
			select {
			case <-held.Lost():
			case <-time.After(time.Minute):
				t.Error("the holder was not told that its lease had ended")
			}
			if took := time.Since(began); took > short+slack {
				t.Errorf("the holder was told after %v", took)
			}
		})
	}
}

// A process that dies between the grant and the reply leaves the lock taken, also where it had waited for the lock.
func TestAbandonAfterWait(t *testing.T) {
	for name, create := range all() {
		for _, where := range []string{"same process", "other process"} {
			bubble(t, name+"/"+where, func(t *testing.T) {
				server, config := simulate.NewRedis(t), session.Config{Prefix: "t:"}
				p, q := start(t, server, create, config), start(t, server, create, config)
				holder := q
				if where == "same process" {
					holder = p
				}
				h := acquire(t.Context(), t, holder, lock.Options{})
				dies, err := lock.NewFaults([]lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectAbandon}}, nil)
				fail.NowIf(t, err)
				ctx := lock.WithFaults(lock.WithOwner(t.Context(), "the one who dies"), dies)
				waiting := locktest.InBackground(ctx, p, key, lock.Options{Wait: time.Minute})
				queued(t, q, 1)
				release(t, h)
				fail.NowUnless(t, result(t, waiting).Err, lock.ErrAbandoned, "Acquire")
				fail.Unequal(t, inspect(t, q).Owner, "the one who dies", "the holder")
			})
		}
	}
}

// An attempt whose reply is lost is repeated. It may have queued an entry already, and the repetition must not queue a
// second one: the lock would be granted again to a waiter that had it.
func TestRepeatedAttemptQueuesOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, prefix := simulate.NewRedis(t), "t:"
		client, queue := server.Client(t), redisio.Key(prefix, "reentrant", key, "queue")
		p, network := process(t, server, newReentrant, session.Config{Prefix: prefix, CommandTimeout: time.Second})
		q := start(t, server, newReentrant, session.Config{Prefix: prefix})
		h := acquire(t.Context(), t, q, lock.Options{})
		lost := network.stopReply(t, waiterAttempt)
		waiting := locktest.InBackground(t.Context(), p, key, lock.Options{Wait: time.Minute})
		<-lost.reached
		repeated := network.stopReply(t, waiterAttempt)
		<-repeated.reached
		repeated.letGo()
		fail.Unequal(t, len(client.LRange(t.Context(), queue, 0, -1).Val()), 1, "entries in the queue")
		release(t, h)
		release(t, leaseOf(t, waiting))
		fail.Unequal(t, inspect(t, q).Owner, "", "the holder after the release")
	})
}
