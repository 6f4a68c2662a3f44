package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"seckill/internal/lock"
)

// scripts is how many random scripts run, in virtual time and otherwise; shrinkings is how many shorter ones are tried of
// one that fails.
const (
	virtualScripts = 6
	realScripts    = 60
	shrinkings     = 200
)

// The actors of a script.
const (
	scriptOwners    = 3
	scriptProcesses = 2
	scriptKeys      = 2
)

// step is one operation on a lock. An action ignores the fields that it does not need.
type step struct {
	action  action
	owner   int
	process int
	key     int
	lease   int // of those granted so far, counted from the newest
}

type action int

const (
	stepTry action = iota
	stepRelease
	stepAbandon
	stepExpire
	stepExtend
	actions // how many there are
)

func (s step) String() string {
	switch s.action {
	case stepTry:
		return fmt.Sprintf("owner %d tries key %d in process %d", s.owner, s.key, s.process)
	case stepExpire:
		return fmt.Sprintf("key %d is removed", s.key)
	}
	what := map[action]string{stepRelease: "released", stepAbandon: "abandoned", stepExtend: "extended"}[s.action]
	if s.lease == 0 {
		return "the newest lease is " + what
	}
	return fmt.Sprintf("the newest lease but %d is %s", s.lease, what)
}

type script []step

func (s script) String() string {
	parts := make([]string, len(s))
	for i, step := range s {
		parts[i] = step.String()
	}
	return strings.Join(parts, "; ")
}

// randomScript has 4 to 40 steps.
func randomScript(r *rand.Rand) script {
	s := make(script, 4+r.IntN(37))
	for i := range s {
		s[i] = step{
			action: action(r.IntN(int(actions))), owner: r.IntN(scriptOwners), process: r.IntN(scriptProcesses),
			key: r.IntN(scriptKeys), lease: r.IntN(4),
		}
	}
	return s
}

// followsModel runs scripts against the lock and against a model. Every script has keys
// and owners of its own. They are the same in each run, so that a failure is, too.
func followsModel(t *trial) {
	runner := t.newScriptRunner()
	for _, fixed := range fixedScripts() {
		if err := runner.run(fixed); err != nil {
			t.scriptViolation(fixed, err)
		}
	}
	n := realScripts
	if t.virtual {
		n = virtualScripts
	}
	for seed := range uint64(n) {
		s := randomScript(rand.New(rand.NewPCG(seed, 1)))
		if err := runner.run(s); err != nil {
			t.scriptViolation(runner.shrink(s, err))
		}
	}
}

// shrink leaves out steps as long as the script fails without them. It returns the shortest script and its failure.
func (s *scriptRunner) shrink(steps script, err error) (script, error) {
	for i, tries := 0, 0; i < len(steps) && tries < shrinkings; tries++ {
		shorter := slices.Delete(slices.Clone(steps), i, i+1)
		if again := s.run(shorter); again != nil {
			steps, err = shorter, again
		} else {
			i++
		}
	}
	return steps, err
}

func (t *trial) scriptViolation(s script, err error) {
	if _, ok := errors.AsType[*violationError](err); !ok {
		t.checkErr(err)
	}
	t.violated("%v, in the script: %v", err, s)
}

// scriptRunner runs scripts on the lock of a trial.
type scriptRunner struct {
	*trial
	processes []lock.Locker
	owners    *lock.Owners
	reenters  bool
	extends   bool
	runs      int
}

// newScriptRunner finds out whether the mechanism has re-entry and Extend, so that the
// model has the same.
func (t *trial) newScriptRunner() *scriptRunner {
	p, q := t.twoProcesses()
	s := &scriptRunner{trial: t, processes: []lock.Locker{p, q}, owners: lock.NewOwners()}
	for _, p := range s.processes { // both alike, so that they have made the same number of attempts
		ctx := lock.WithOwner(t.ctx, s.owners.New())
		one := t.mustAcquireKey(ctx, p, "rehearsal", lock.Options{TTL: t.long})
		again, err := t.acquireKey(ctx, p, "rehearsal", lock.Options{TTL: t.long})
		s.extends = !errors.Is(one.Extend(t.ctx, t.long), errors.ErrUnsupported)
		if s.reenters = err == nil; s.reenters {
			t.mustRelease(again)
		}
		t.mustRelease(one)
	}
	return s
}

type modelKey struct {
	owner  int // index of the script's owner + 1; 0 is nobody
	leases []*modelLease
}

// modelLease is a granted lease together with its model.
type modelLease struct {
	lock.Lease
	key    int
	owner  int
	valid  bool // the store has it
	closed bool // it was released or abandoned
}

// run runs one script. It returns a [*violationError] if the lock and the model differ.
func (s *scriptRunner) run(steps script) error {
	s.runs++
	r := &scriptRun{scriptRunner: s, number: s.runs}
	for i := range r.owners {
		r.owners[i] = s.owners.New()
	}
	defer r.end()
	for i, step := range steps {
		err := r.act(step)
		if err == nil {
			err = r.compare()
		}
		if _, ok := errors.AsType[*violationError](err); ok {
			return &violationError{what: fmt.Sprintf("step %d: %v", i+1, err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type scriptRun struct {
	*scriptRunner
	number int
	owners [scriptOwners]lock.Owner
	keys   [scriptKeys]modelKey
	leases []*modelLease
}

func (r *scriptRun) name(key int) string { return fmt.Sprintf("script:%d:%d", r.number, key) }

func (r *scriptRun) act(s step) error {
	switch {
	case s.action == stepTry:
		return r.try(s)
	case s.action == stepExpire && r.Store.Remove != nil:
		r.loseKey(s.key)
		return r.Store.Remove(r.ctx, r.name(s.key))
	case s.action == stepExpire || s.lease >= len(r.leases):
		return nil
	}
	l := r.leases[len(r.leases)-1-s.lease]
	switch s.action {
	case stepRelease:
		return r.release(l)
	case stepAbandon:
		lock.Abandon(l.Lease)
		l.closed = true // the store still has the lease
	case stepExtend:
		if r.extends {
			return r.expect("extending", l.Extend(r.ctx, r.long), l)
		}
	}
	return nil
}

func (r *scriptRun) try(s step) error {
	k := &r.keys[s.key]
	ctx := lock.WithOwner(r.ctx, r.owners[s.owner])
	lease, err := r.acquireKey(ctx, r.processes[s.process], r.name(s.key), lock.Options{TTL: r.long})
	free := k.owner == 0 || k.owner == s.owner+1 && r.reenters
	refused := errors.Is(err, lock.ErrNotAcquired)
	switch {
	case err != nil && !refused:
		return fmt.Errorf("trying: %w", err)
	case !refused && !free:
		return &violationError{what: fmt.Sprintf("owner %d got key %d, which owner %d holds", s.owner, s.key, k.owner-1)}
	case refused && free:
		return &violationError{what: fmt.Sprintf("owner %d was refused key %d, which it could have had: %v", s.owner, s.key, err)}
	case refused:
		return nil
	}
	l := &modelLease{Lease: lease, key: s.key, owner: s.owner, valid: true}
	r.leases = append(r.leases, l)
	k.owner, k.leases = s.owner+1, append(k.leases, l)
	return nil
}

// loseKey makes the model's key free.
func (r *scriptRun) loseKey(key int) {
	for _, l := range r.keys[key].leases {
		l.valid = false
	}
	r.keys[key] = modelKey{}
}

func (r *scriptRun) release(l *modelLease) error {
	if err := r.expect("releasing", l.Release(r.ctx), l); err != nil {
		return err
	}
	if l.valid && !l.closed {
		k := &r.keys[l.key]
		k.drop(l)
	}
	l.closed = true
	return nil
}

func (k *modelKey) drop(l *modelLease) {
	for i, other := range k.leases {
		if other == l {
			k.leases = append(k.leases[:i:i], k.leases[i+1:]...)
			break
		}
	}
	if len(k.leases) == 0 {
		k.owner = 0
	}
}

// expect compares the result of an operation on a lease with the model.
func (r *scriptRun) expect(what string, err error, l *modelLease) error {
	owner := r.keys[l.key].owner
	fine := false
	switch {
	case errors.Is(err, lock.ErrUnavailable):
		return fmt.Errorf("%s: %w", what, err)
	case l.closed:
		fine = errors.Is(err, lock.ErrNotHeld)
	case l.valid:
		fine = err == nil
	case what == "extending": // a holder that was told before gets the same error again
		fine = errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrExpired)
	case owner == 0:
		fine = errors.Is(err, lock.ErrExpired)
	case owner == l.owner+1: // it holds the key with another lease
		fine = errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrExpired)
	default:
		fine = errors.Is(err, lock.ErrLost)
	}
	if fine {
		return nil
	}
	return &violationError{what: fmt.Sprintf("%s a lease (valid: %t, over: %t, the key's owner: %d, its own: %d) gave %v",
		what, l.valid, l.closed, owner-1, l.owner, err)}
}

// compare compares every key with what Inspect returns, if the mechanism has it.
func (r *scriptRun) compare() error {
	inspector, ok := r.processes[0].(lock.Inspector)
	if !ok {
		return nil
	}
	for i, k := range r.keys {
		state, err := inspector.Inspect(r.ctx, r.name(i))
		if err != nil {
			return fmt.Errorf("inspecting: %w", err)
		}
		want := lock.Owner("")
		if k.owner > 0 {
			want = r.owners[k.owner-1]
		}
		if state.Owner != want || state.Count != len(k.leases) {
			return &violationError{what: fmt.Sprintf("according to Inspect key %d is held by %q %d times, want %q %d times",
				i, state.Owner, state.Count, want, len(k.leases))}
		}
	}
	return nil
}

// end releases what the script left behind.
func (r *scriptRun) end() {
	ctx := context.WithoutCancel(r.ctx)
	for _, l := range r.leases {
		if !l.closed {
			_ = l.Release(ctx)
		}
	}
	if r.Store.Remove != nil {
		for i := range r.keys {
			_ = r.Store.Remove(ctx, r.name(i))
		}
	}
}
