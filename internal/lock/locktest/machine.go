package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/lock"
)

// How long scripts are run, and how long a failing one is made smaller.
const (
	scriptsTime = 1500 * time.Millisecond
	shrinkTime  = 700 * time.Millisecond
)

// The actors of a script.
const (
	scriptOwners    = 3
	scriptProcesses = 2
	scriptKeys      = 2
)

// step is one thing done to a lock. What it does not need is ignored.
type step struct {
	do      deed
	owner   int
	process int
	key     int
	lease   int // of those that were granted so far, counted from the newest
}

type deed int

const (
	stepTry deed = iota
	stepRelease
	stepAbandon
	stepExpire
	stepExtend
	deeds // how many there are
)

func (s step) String() string {
	switch s.do {
	case stepTry:
		return fmt.Sprintf("owner %d tries key %d in process %d", s.owner, s.key, s.process)
	case stepExpire:
		return fmt.Sprintf("key %d is taken away", s.key)
	}
	what := map[deed]string{stepRelease: "released", stepAbandon: "abandoned", stepExtend: "extended"}[s.do]
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

func drawStep() *rapid.Generator[step] {
	return rapid.Custom(func(t *rapid.T) step {
		return step{
			do:      deed(rapid.IntRange(0, int(deeds)-1).Draw(t, "do")),
			owner:   rapid.IntRange(0, scriptOwners-1).Draw(t, "owner"),
			process: rapid.IntRange(0, scriptProcesses-1).Draw(t, "process"),
			key:     rapid.IntRange(0, scriptKeys-1).Draw(t, "key"),
			lease:   rapid.IntRange(0, 3).Draw(t, "lease"),
		}
	})
}

// followsModel runs scripts against the lock and against a model. Every script
// has keys and owners of its own. What a script came to is remembered, and runs end
// with the time: rapid asks for the same script more than once, and would otherwise
// make a failing one smaller for half a minute.
func followsModel(t *trial) {
	t.quietRapid()
	stage := t.stage()
	for _, story := range stories() {
		if err := stage.play(story); err != nil {
			t.blameScript(err, story, "")
		}
	}
	var failing script
	known := make(map[string]error)
	end := time.Now().Add(scriptsTime)
	judge := &rapidJudge{name: t.tb.Name()}
	rapid.Check(judge, func(r *rapid.T) {
		s := script(rapid.SliceOfN(drawStep(), 4, 40).Draw(r, "script"))
		err, seen := known[s.String()]
		if !seen && time.Now().Before(end) {
			err = stage.play(s)
			known[s.String()] = err
		}
		if err == nil {
			return
		}
		if failing == nil {
			end = time.Now().Add(shrinkTime)
		}
		if failing == nil || len(s) <= len(failing) {
			failing = s
		}
		r.Fatalf("%v", err)
	})
	if failing != nil {
		t.blameScript(known[failing.String()], failing, judge.seed())
	}
	if judge.Failed() {
		t.check(errors.New(judge.text.String()))
	}
}

func (t *trial) blameScript(err error, s script, how string) {
	if _, ok := errors.AsType[*violationError](err); !ok {
		t.check(err)
	}
	t.violated("%v, at the end of: %v%s", err, s, how)
}

// stage is where scripts are played: the lock, what it can do, and the model.
type stage struct {
	*trial
	processes []lock.Locker
	owners    *lock.Owners
	reenters  bool
	extends   bool
	plays     int
}

// stage finds out what the mechanism has: a model without re-entry is as good.
func (t *trial) stage() *stage {
	p, q := t.rivals()
	s := &stage{trial: t, processes: []lock.Locker{p, q}, owners: lock.NewOwners()}
	for _, p := range s.processes { // both alike, so that neither is a step ahead
		ctx := lock.WithOwner(t.ctx, s.owners.New())
		one := t.holdKey(ctx, p, "rehearsal", lock.Options{TTL: longLease})
		again, err := t.takeKey(ctx, p, "rehearsal", lock.Options{TTL: longLease})
		s.extends = !errors.Is(one.Extend(t.ctx, longLease), errors.ErrUnsupported)
		if s.reenters = err == nil; s.reenters {
			t.release(again)
		}
		t.release(one)
	}
	return s
}

// modelKey is what the model knows of a key.
type modelKey struct {
	owner  int // of a script, + 1; 0 is nobody
	leases []*modelLease
}

// modelLease is a lease that was granted, with what the model knows of it.
type modelLease struct {
	lock.Lease
	key    int
	owner  int
	valid  bool // the store has it
	closed bool // it was released or abandoned
}

// play runs one script. It returns a [*violationError] where lock and model part.
func (s *stage) play(steps script) error {
	s.plays++
	p := &play{stage: s, number: s.plays}
	for i := range p.owners {
		p.owners[i] = s.owners.New()
	}
	defer p.end()
	for i, step := range steps {
		err := p.act(step)
		if err == nil {
			err = p.compare()
		}
		if _, ok := errors.AsType[*violationError](err); ok {
			return &violationError{fmt.Sprintf("step %d: %v", i+1, err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// play is one run of a script.
type play struct {
	*stage
	number int
	owners [scriptOwners]lock.Owner
	keys   [scriptKeys]modelKey
	leases []*modelLease
}

func (p *play) name(key int) string { return fmt.Sprintf("script:%d:%d", p.number, key) }

func (p *play) act(s step) error {
	switch {
	case s.do == stepTry:
		return p.try(s)
	case s.do == stepExpire && p.Store.Remove != nil:
		p.forget(s.key)
		return p.Store.Remove(p.ctx, p.name(s.key))
	case s.do == stepExpire || s.lease >= len(p.leases):
		return nil
	}
	l := p.leases[len(p.leases)-1-s.lease]
	switch s.do {
	case stepRelease:
		return p.release(l)
	case stepAbandon:
		l.Abandon()
		l.closed = true // and the store does not know
	case stepExtend:
		if p.extends {
			return p.expect("extending", l.Extend(p.ctx, longLease), l)
		}
	}
	return nil
}

func (p *play) try(s step) error {
	k := &p.keys[s.key]
	ctx := lock.WithOwner(p.ctx, p.owners[s.owner])
	lease, err := p.takeKey(ctx, p.processes[s.process], p.name(s.key), lock.Options{TTL: longLease})
	free := k.owner == 0 || k.owner == s.owner+1 && p.reenters
	refused := errors.Is(err, lock.ErrNotAcquired)
	switch {
	case err != nil && !refused:
		return fmt.Errorf("trying: %w", err)
	case !refused && !free:
		return &violationError{fmt.Sprintf("owner %d got key %d, which owner %d holds", s.owner, s.key, k.owner-1)}
	case refused && free:
		return &violationError{fmt.Sprintf("owner %d was refused key %d, to which it has a right: %v", s.owner, s.key, err)}
	case refused:
		return nil
	}
	l := &modelLease{Lease: lease, key: s.key, owner: s.owner, valid: true}
	p.leases = append(p.leases, l)
	k.owner, k.leases = s.owner+1, append(k.leases, l)
	return nil
}

// forget takes a key away from its holder.
func (p *play) forget(key int) {
	for _, l := range p.keys[key].leases {
		l.valid = false
	}
	p.keys[key] = modelKey{}
}

func (p *play) release(l *modelLease) error {
	if err := p.expect("releasing", l.Release(p.ctx), l); err != nil {
		return err
	}
	if l.valid && !l.closed {
		k := &p.keys[l.key]
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

// expect judges what was said of a lease.
func (p *play) expect(what string, err error, l *modelLease) error {
	owner := p.keys[l.key].owner
	fine := false
	switch {
	case errors.Is(err, lock.ErrUnavailable):
		return fmt.Errorf("%s: %w", what, err)
	case l.closed:
		fine = errors.Is(err, lock.ErrNotHeld)
	case l.valid:
		fine = err == nil
	case what == "extending": // a holder that was told earlier is told the same again
		fine = errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrExpired)
	case owner == 0:
		fine = errors.Is(err, lock.ErrExpired)
	case owner == l.owner+1: // it holds the key anew, by another lease
		fine = errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrExpired)
	default:
		fine = errors.Is(err, lock.ErrLost)
	}
	if fine {
		return nil
	}
	return &violationError{fmt.Sprintf("%s a lease (valid: %t, over: %t, the key's owner: %d, its own: %d) gave %v",
		what, l.valid, l.closed, owner-1, l.owner, err)}
}

// compare asks the mechanism, where it can be asked, about every key.
func (p *play) compare() error {
	inspector, ok := p.processes[0].(lock.Inspector)
	if !ok {
		return nil
	}
	for i, k := range p.keys {
		state, err := inspector.Inspect(p.ctx, p.name(i))
		if err != nil {
			return fmt.Errorf("inspecting: %w", err)
		}
		want := lock.Owner("")
		if k.owner > 0 {
			want = p.owners[k.owner-1]
		}
		if state.Owner != want || state.Count != len(k.leases) {
			return &violationError{fmt.Sprintf("key %d is said to be held by %q %d times, not by %q %d times",
				i, state.Owner, state.Count, want, len(k.leases))}
		}
	}
	return nil
}

// end gives back what the script left behind.
func (p *play) end() {
	ctx := context.WithoutCancel(p.ctx)
	for _, l := range p.leases {
		if !l.closed {
			_ = l.Release(ctx)
		}
	}
	if p.Store.Remove != nil {
		for i := range p.keys {
			_ = p.Store.Remove(ctx, p.name(i))
		}
	}
}
