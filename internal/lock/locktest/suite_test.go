package locktest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/none"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// wrong is a mutex in memory with one thing wrong about it.
type wrong struct {
	lock.Locker
	acquire func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error)
}

func (w wrong) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	return w.acquire(w.Locker, ctx, key, opts)
}

// altered is a lease with one thing wrong about it.
type altered struct {
	lock.Lease
	release func(next lock.Lease, ctx context.Context) error
	context context.Context
	owner   lock.Owner
}

func (a altered) Release(ctx context.Context) error {
	if a.release != nil {
		return a.release(a.Lease, ctx)
	}
	return a.Lease.Release(ctx)
}

func (a altered) Context() context.Context {
	if a.context != nil {
		return a.context
	}
	return a.Lease.Context()
}

func (a altered) Owner() lock.Owner {
	if a.owner != "" {
		return a.owner
	}
	return a.Lease.Owner()
}

// lease alters every lease that a wrong locker gives.
func lease(alter func(altered) altered) func(lock.Locker, context.Context, string, lock.Options) (lock.Lease, error) {
	return func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
		l, err := next.Acquire(ctx, key, opts)
		if err != nil {
			return nil, err
		}
		return alter(altered{Lease: l}), nil
	}
}

func TestWrongLockersAreCaught(t *testing.T) {
	tests := map[string]struct {
		acquire func(lock.Locker, context.Context, string, lock.Options) (lock.Lease, error)
		caught  []Behaviour
	}{
		"one lock for all keys": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				return next.Acquire(ctx, "all", opts)
			}, []Behaviour{KeepsKeysApart},
		},
		"one owner for all": {
			lease(func(a altered) altered { a.owner = "me"; return a }),
			[]Behaviour{OwnerFromContext, NamesHolder},
		},
		"release does nothing": {
			lease(func(a altered) altered {
				a.release = func(lock.Lease, context.Context) error { return nil }
				return a
			}),
			[]Behaviour{ReleasesOnce, TellsCancelledFromTaken, ReleaseLetsWaiterIn},
		},
		"release tells nobody that it came twice": {
			lease(func(a altered) altered {
				a.release = func(next lock.Lease, ctx context.Context) error { _ = next.Release(ctx); return nil }
				return a
			}),
			[]Behaviour{ReleasesOnce},
		},
		"the lease's context is nobody's": {
			lease(func(a altered) altered { a.context = context.Background(); return a }),
			[]Behaviour{EndsContextOnRelease},
		},
		"a failure after the grant keeps it": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				faults := opts.Faults
				opts.Faults = nil
				l, err := next.Acquire(ctx, key, opts)
				if err != nil {
					return nil, err
				}
				return l, faults.Pass(ctx, lock.AfterAcquireBeforeReply)
			}, []Behaviour{FailedGrantIsGivenBack},
		},
		"faults are ignored": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				opts.Faults = nil
				return next.Acquire(ctx, key, opts)
			}, []Behaviour{FailedGrantIsGivenBack, AbandonedGrantStays},
		},
		"everything is valid": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				return next.Acquire(ctx, "x"+strings.Trim(key, "{}1"), lock.Options{})
			}, []Behaviour{RefusesInvalid},
		},
		"the context is not looked at": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				opts.Wait = min(opts.Wait, 50*time.Millisecond)
				return next.Acquire(context.WithoutCancel(ctx), key, opts)
			}, []Behaviour{TellsCancelledFromTaken, CancelledWaitersAreGone, EndsContextOnRelease, WaitsAsLongAsAsked},
		},
		"it always waits a little": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				opts.Wait += 2 * tolerance
				return next.Acquire(ctx, key, opts)
			}, []Behaviour{TriesOnce, WaitsAsLongAsAsked},
		},
		"a refusal says nothing": {
			func(next lock.Locker, ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
				l, err := next.Acquire(ctx, key, opts)
				if errors.Is(err, lock.ErrNotAcquired) {
					return nil, lock.ErrNotAcquired
				}
				return l, err
			}, []Behaviour{TriesOnce, NamesHolder},
		},
	}
	for name, test := range tests {
		for _, caught := range test.caught {
			t.Run(name+"/"+string(caught), func(t *testing.T) {
				t.Parallel()
				err := find(t, caught).try(t, subject(func() lock.Locker {
					return wrong{Locker: local.New(), acquire: test.acquire}
				}))
				if _, ok := errors.AsType[*violationError](err); !ok {
					t.Errorf("the trial gave %v, want a violation", err)
				}
				if Holds().judge(err) == nil {
					t.Error("the suite would have passed the promise")
				}
			})
		}
	}
}

func TestSoundLockerFailsDeclaredBreakage(t *testing.T) {
	sound := subject(func() lock.Locker { return local.New() })
	for _, name := range []Behaviour{ExcludesGoroutines, ReleasesOnce, TriesOnce, EndsContextOnRelease} {
		found := find(t, name).try(t, sound)
		if err := Holds().judge(found); err != nil {
			t.Errorf("%s: a sound locker did not keep it: %v", name, err)
		}
		if Breaks("so it is said").judge(found) == nil {
			t.Errorf("%s: the suite would have passed a breakage that is none", name)
		}
	}
	unsound := subject(func() lock.Locker { return none.New() })
	if err := Breaks("everybody gets in").judge(find(t, ExcludesGoroutines).try(t, unsound)); err != nil {
		t.Errorf("a breakage that is one: %v", err)
	}
}

// A trial that cannot be held is no evidence, neither for a promise nor for a
// breakage.
func TestFailedTrialProvesNothing(t *testing.T) {
	found := find(t, ToldWhenDeleted).try(t, subject(func() lock.Locker { return local.New() }))
	if _, ok := errors.AsType[*violationError](found); found == nil || ok {
		t.Fatalf("a trial without a store gave %v, want an error that is no violation", found)
	}
	if Holds().judge(found) == nil || Breaks("so it is said").judge(found) == nil {
		t.Error("the suite would have taken a failed trial for a proof")
	}
}

func TestPromisesAreComplete(t *testing.T) {
	all := Promises{}
	for _, name := range Behaviours() {
		all[name] = Holds()
	}
	if err := all.complete(behaviours()); err != nil {
		t.Errorf("a complete set: %v", err)
	}
	for name, spoil := range map[string]func(Promises){
		"a claim is missing":     func(p Promises) { delete(p, TriesOnce) },
		"a claim has no verdict": func(p Promises) { p[TriesOnce] = Claim{} },
		"a breakage is unsaid":   func(p Promises) { p[TriesOnce] = Breaks("") },
		"a waiver is unsaid":     func(p Promises) { p[TriesOnce] = NotApplicable("") },
		"a behaviour is unknown": func(p Promises) { p["is-nice"] = Holds() },
	} {
		spoilt := maps.Clone(all)
		if spoil(spoilt); spoilt.complete(behaviours()) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// subject has neither connections nor a store.
func subject(locker func() lock.Locker) Subject {
	return Subject{Process: func(testing.TB, *Line) lock.Locker { return locker() }}
}

func find(t *testing.T, name Behaviour) behaviour {
	t.Helper()
	all := slices.Concat(behaviours(), sharedBehaviours())
	i := slices.IndexFunc(all, func(b behaviour) bool { return b.name == name })
	if i < 0 {
		t.Fatalf("no behaviour %s", name)
	}
	return all[i]
}
