package locktest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/none"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// flawedLocker is a mutex in memory with one flaw.
type flawedLocker struct {
	lock.Locker
	acquire func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error)
}

func (f flawedLocker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	return f.acquire(f.Locker, ctx, key, opts)
}

// flawedLease is a lease with one flaw.
type flawedLease struct {
	lock.Lease
	release func(next lock.Lease, ctx context.Context) error
	context context.Context
	owner   lock.Owner
}

func (l flawedLease) Release(ctx context.Context) error {
	if l.release != nil {
		return l.release(l.Lease, ctx)
	}
	return l.Lease.Release(ctx)
}

func (l flawedLease) Abandon() { lock.Abandon(l.Lease) }

func (l flawedLease) Context() context.Context {
	if l.context != nil {
		return l.context
	}
	return l.Lease.Context()
}

func (l flawedLease) Owner() lock.Owner {
	if l.owner != "" {
		return l.owner
	}
	return l.Lease.Owner()
}

// withoutFaults returns ctx without the plan that it carries.
func withoutFaults(ctx context.Context) context.Context {
	return lock.WithFaults(ctx, new(lock.Faults))
}

// alterLease alters every lease of a flawed locker.
func alterLease(
	alter func(flawedLease) flawedLease,
) func(lock.Locker, context.Context, string, lock.Options) (lock.Lease, error) {
	return func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
		l, err := next.Acquire(ctx, key, opts)
		if err != nil {
			return nil, err
		}
		return alter(flawedLease{Lease: l}), nil
	}
}

func TestWrongLockersAreCaught(t *testing.T) {
	var releases atomic.Int64
	tests := map[string]struct {
		acquire func(lock.Locker, context.Context, string, lock.Options) (lock.Lease, error)
		caught  []Behaviour
	}{
		"one lock for all keys": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				return next.Acquire(ctx, "all", opts)
			}, []Behaviour{KeepsKeysApart},
		},
		"one owner for all acquisitions": {
			alterLease(func(l flawedLease) flawedLease { l.owner = "me"; return l }),
			[]Behaviour{OwnerFromContext, NamesHolder},
		},
		"release does nothing": {
			alterLease(func(l flawedLease) flawedLease {
				l.release = func(lock.Lease, context.Context) error { return nil }
				return l
			}),
			[]Behaviour{ReleasesOnce, TellsCancelledFromTaken, ReleaseLetsWaiterIn},
		},
		"a second release succeeds": {
			alterLease(func(l flawedLease) flawedLease {
				l.release = func(next lock.Lease, ctx context.Context) error { _ = next.Release(ctx); return nil }
				return l
			}),
			[]Behaviour{ReleasesOnce},
		},
		"the lease's context never ends": {
			alterLease(func(l flawedLease) flawedLease { l.context = context.Background(); return l }),
			[]Behaviour{EndsContextOnRelease},
		},
		"a failure after the grant keeps the lock": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				l, err := next.Acquire(withoutFaults(ctx), key, opts)
				if err != nil {
					return nil, err
				}
				return l, lock.FaultsFrom(ctx).Pass(ctx, lock.AfterAcquireBeforeReply)
			}, []Behaviour{FailedGrantIsGivenBack},
		},
		"faults are ignored": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				return next.Acquire(withoutFaults(ctx), key, opts)
			}, []Behaviour{FailedGrantIsGivenBack, AbandonedGrantStays},
		},
		"nothing is refused as invalid": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				return next.Acquire(ctx, "x"+strings.Trim(key, "{}1"), lock.Options{})
			}, []Behaviour{RefusesInvalid},
		},
		"the context is ignored": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				opts.Wait = min(opts.Wait, 50*time.Millisecond)
				return next.Acquire(context.WithoutCancel(ctx), key, opts)
			}, []Behaviour{TellsCancelledFromTaken, CancelledWaitersAreGone, EndsContextOnRelease, WaitsAsLongAsAsked},
		},
		"the lock is released with the context of its acquisition": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				l, err := next.Acquire(ctx, key, opts)
				if err == nil {
					context.AfterFunc(ctx, func() { _ = l.Release(context.WithoutCancel(ctx)) })
				}
				return l, err
			}, []Behaviour{OutlivesContext},
		},
		"every hundredth release fails": {
			alterLease(func(l flawedLease) flawedLease {
				l.release = func(next lock.Lease, ctx context.Context) error {
					if err := next.Release(ctx); releases.Add(1)%100 != 0 {
						return err
					}
					return lock.ErrExpired
				}
				return l
			}), []Behaviour{EnduresManyPairs},
		},
		"a goroutine stays for each waiter": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				go simulate.Sleep(time.Minute)
				return next.Acquire(ctx, key, opts)
			}, []Behaviour{ThousandCancelledWaiters},
		},
	}
	for name, test := range tests {
		for _, caught := range test.caught {
			t.Run(name+"/"+string(caught), func(t *testing.T) {
				t.Parallel()
				err := observe(t, caught, subject(func() lock.Locker {
					return flawedLocker{Locker: local.New(), acquire: test.acquire}
				}))
				if _, ok := errors.AsType[*violationError](err); !ok {
					t.Errorf("the trial gave %v, want a violation", err)
				}
				if Holds().verify(err) == nil {
					t.Error("the suite would have accepted the promise")
				}
			})
		}
	}
}

func TestSoundLockerFailsDeclaredBreakage(t *testing.T) {
	sound := subject(func() lock.Locker { return local.New() })
	for _, name := range []Behaviour{ExcludesGoroutines, ReleasesOnce, TriesOnce, EndsContextOnRelease} {
		found := observe(t, name, sound)
		fail.If(t, Holds().verify(found), "%s: a sound locker failed", name)
		if Breaks("for the test").verify(found) == nil {
			t.Errorf("%s: the suite would have accepted a breakage that does not exist", name)
		}
	}
	unsound := subject(func() lock.Locker { return none.New() })
	fail.If(t, Breaks("everybody gets in").verify(observe(t, ExcludesGoroutines, unsound)), "a real breakage")
}

// A lease that was granted too late to count is no violation, nor is a holder that was told the wrong reason for a
// removal that took long. A grant that is refused at once, or without a limit of its own, is one, and so is the wrong
// reason for a quick removal, or a holder that is not told at all.
func TestLateServerIsNoViolation(t *testing.T) {
	refused := func(took time.Duration, opts lock.Options) func(*trial) {
		return func(t *trial) {
			unavailable := func(lock.Locker, context.Context, string, lock.Options) (lock.Lease, error) {
				simulate.Sleep(took)
				return nil, lock.ErrUnavailable
			}
			t.mustAcquire(flawedLocker{Locker: t.process(), acquire: unavailable}, opts)
		}
	}
	told := func(took time.Duration, cause error) func(*trial) {
		return func(t *trial) {
			lease := lock.NewHeld(t.ctx, lock.Grant{Key: t.key, Stop: func() {}})
			t.measureRemoval(func() { simulate.Sleep(took) })
			if cause != nil {
				lease.Lose(cause)
			}
			t.mustBeTold(lease, "was deleted", lock.ErrExpired)
		}
	}
	for name, c := range map[string]struct {
		check func(*trial)
		late  bool
	}{
		"refused later than the lease": {refused(virtualPace().short, lock.Options{TTL: virtualPace().short}), true},
		"refused at once":              {refused(0, lock.Options{TTL: virtualPace().short}), false},
		"refused, of any length":       {refused(virtualPace().short, lock.Options{}), false},
		"told another reason, slowly":  {told(toldWithin, lock.ErrUnavailable), true},
		"told another reason, quickly": {told(0, lock.ErrUnavailable), false},
		"told nothing, slowly":         {told(toldWithin, nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := behaviour{check: c.check}.try(t, subject(func() lock.Locker { return local.New() })(t).at(virtualPace(), nil))
				_, late := errors.AsType[*lateServerError](err)
				_, violated := errors.AsType[*violationError](err)
				if late != c.late || violated == c.late {
					t.Errorf("the trial gave %v; a late server: %t", err, c.late)
				}
				if Holds().verify(err) == nil {
					t.Error("the suite would have accepted the promise")
				}
			})
		})
	}
}

// A check that ends early leaves waiters behind, which may take some time to give back what they were granted. In a
// bubble time would stand still for them once the trial has ended.
func TestTrialEndsAfterItsWaiters(t *testing.T) {
	for name, leave := range map[string]func(*trial, lock.Locker){
		"alone":      func(t *trial, p lock.Locker) { t.acquireAsync(t.ctx, p, lock.Options{TTL: t.long, Wait: t.limit}) },
		"in a queue": func(t *trial, _ lock.Locker) { t.enqueue(1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var left atomic.Bool
				slow := func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
					l, err := next.Acquire(ctx, key, opts)
					if err != nil {
						simulate.Sleep(time.Second)
						left.Store(true)
					}
					return l, err
				}
				p := flawedLocker{Locker: local.New(), acquire: slow}
				check := func(t *trial) {
					t.mustAcquire(p, lock.Options{TTL: t.long})
					leave(t, p)
					t.sleep(time.Second)
					t.violated("early")
				}
				err := behaviour{check: check}.try(t, subject(func() lock.Locker { return p })(t).at(virtualPace(), nil))
				if err == nil || err.Error() != "early" || !left.Load() {
					t.Errorf("the trial ended with %v; its waiter had returned: %t", err, left.Load())
				}
			})
		})
	}
}

// A promise gets another trial if the machine stalled and lateness can explain the violation; a declared breakage if it
// was not seen.
func TestWhenTrialsDecideNothing(t *testing.T) {
	late, calm, stalled := &violationError{what: "late"}, stallLimit/2, 2*stallLimit
	for _, test := range []struct {
		what  string
		claim Claim
		name  Behaviour
		found error
		stall time.Duration
		open  bool
	}{
		{"held", Holds(), TriesOnce, nil, stalled, false},
		{"violated on a calm machine", Holds(), TriesOnce, late, calm, false},
		{"violated on a machine that stalled", Holds(), TriesOnce, late, stalled, true},
		{"two holders on a machine that stalled", Holds(), ExcludesGoroutines, late, stalled, false},
		{"seen to break", Breaks("x"), TriesOnce, late, stalled, false},
		{"not seen to break", Breaks("x"), TriesOnce, nil, calm, true},
		{"no answer on a calm machine", Holds(), ExcludesGoroutines, lock.ErrUnavailable, calm, false},
		{"no answer on a machine that stalled", Holds(), ExcludesGoroutines, lock.ErrUnavailable, stalled, true},
		{"no answer where it was to break", Breaks("x"), TriesOnce, lock.ErrUnavailable, calm, true},
		{"granted too late by servers beside a process that kept time", Holds(), ToldWhenExpired, &lateServerError{}, calm, true},
	} {
		fail.Unequal(t, test.claim.open(test.name, test.found, test.stall), test.open, "%s: another trial", test.what)
	}
}

// A trial that cannot be run proves neither a promise nor a breakage.
func TestFailedTrialProvesNothing(t *testing.T) {
	found := observe(t, ToldWhenDeleted, subject(func() lock.Locker { return local.New() }))
	if _, ok := errors.AsType[*violationError](found); found == nil || ok {
		t.Fatalf("a trial without a store gave %v, want an error that is no violation", found)
	}
	if Holds().verify(found) == nil || Breaks("for the test").verify(found) == nil {
		t.Error("the suite would have accepted a failed trial as a proof")
	}
}

func TestPromisesAreComplete(t *testing.T) {
	all := AllHold()
	fail.If(t, all.complete(behaviours()), "a complete set")
	for name, damage := range map[string]func(Promises){
		"a claim is missing":       func(p Promises) { delete(p, TriesOnce) },
		"a claim has no verdict":   func(p Promises) { p[TriesOnce] = Claim{} },
		"a breakage has no reason": func(p Promises) { p[TriesOnce] = Breaks("") },
		"a waiver has no reason":   func(p Promises) { p[TriesOnce] = NotApplicable("") },
		"a behaviour is unknown":   func(p Promises) { p["is-nice"] = Holds() },
	} {
		damaged := maps.Clone(all)
		if damage(damaged); damaged.complete(behaviours()) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// subject makes a subject that has neither connections nor a store.
func subject(locker func() lock.Locker) func(*testing.T) Subject {
	return func(*testing.T) Subject {
		return Subject{Process: func(testing.TB, *Network) lock.Locker { return locker() }}
	}
}

// observe runs one trial of a behaviour in virtual time.
func observe(t *testing.T, name Behaviour, subject func(*testing.T) Subject) (found error) {
	t.Helper()
	all := slices.Concat(behaviours(), sharedBehaviours())
	i := slices.IndexFunc(all, func(b behaviour) bool { return b.name == name })
	if i < 0 {
		t.Fatalf("no behaviour %s", name)
	}
	synctest.Test(t, func(t *testing.T) {
		s := subject(t)
		found = all[i].try(t, s.at(virtualPace(), s.promises))
		simulate.Sleep(time.Minute) // until what a flaw has left behind ends
	})
	return found
}
