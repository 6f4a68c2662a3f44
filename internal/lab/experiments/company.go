package experiments

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

// company is the actors of a scene that is about one key, and who watches them.
type company struct {
	*lab.Play
	with     lab.Setup
	key      string
	actors   []*actor.Actor
	observer *stage.Observer
}

// gather begins a company without actors, on a key that nobody has used before.
func gather(p *lab.Play, with lab.Setup) *company {
	return &company{Play: p, with: with, key: "stock:" + strings.ToLower(rand.Text()[:8])}
}

// asking is a policy for actors, which acquire and sell nothing. A lease of 0 is the
// mechanism's own.
func asking(mechanism string, lease, wait time.Duration) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock, p.LockTTLMS, p.LockWaitMS = mechanism, lease.Milliseconds(), wait.Milliseconds()
	return p
}

// hire starts an actor on the shared servers that the mechanism needs, unless adjust
// says otherwise.
func (c *company) hire(name string, adjust ...func(*actor.Config)) *actor.Actor {
	config := actor.Config{Name: name, Prefix: stage.KeyPrefix, Watchdog: c.with.Watchdog}
	if stage.LockStore(c.with.Policy.Lock) == stage.LockStore("reentrant") {
		config.RedisAddrs = []string{c.Redis().Addr()}
	}
	for _, change := range adjust {
		change(&config)
	}
	a := actor.Start(c, config)
	c.actors = append(c.actors, a)
	return a
}

// observe has the lock's store watched from now on.
func (c *company) observe() {
	c.observer = c.Observe(c.Inspector(c.with.Policy.Lock), c.key)
}

// ask is an acquisition as the setup has it.
func (c *company) ask(who string) actor.Acquire {
	return actor.Acquire{
		Lock: c.with.Policy.Lock, Key: c.key, Wait: c.with.Policy.Wait(), TTL: c.with.Policy.TTL(), Who: who,
	}
}

// warm has an actor open its connections, on a key that plays no part.
func (c *company) warm(a *actor.Actor) {
	first := c.ask("")
	first.Key, first.TTL = c.key+"/warm", time.Minute
	g, err := a.Acquire(c.Context(), first)
	c.must(err)
	c.must(a.Release(c.Context(), g.Lease))
}

// letGo gives a lock back. A holder that has lost it by then is for the judge to find.
func (c *company) letGo(a *actor.Actor, l actor.Lease) {
	err := a.Release(c.Context(), l)
	if !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrNotHeld) {
		c.must(err)
	}
}

// work goes on for a while, or until the holder is told that its lock is lost: ToldAt
// is 0 where it was not.
func (c *company) work(a *actor.Actor, l actor.Lease, d time.Duration) actor.Status {
	ctx, cancel := context.WithTimeout(c.Context(), d)
	defer cancel()
	told, err := a.AwaitLoss(ctx, l)
	if c.Context().Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return actor.Status{}
	}
	c.must(err)
	return told
}

// await waits until an actor has noted something about the key.
func (c *company) await(what string, cond func(trace.Event) bool) (found trace.Event) {
	c.Until(what, func() bool {
		for _, e := range c.events() {
			if cond(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// acquiredBy is the event that somebody was granted the lock.
func acquiredBy(who string) func(trace.Event) bool {
	return func(e trace.Event) bool { return e.Kind == trace.Acquired && e.Who == who }
}

// askedBy is the event that somebody asks for it.
func askedBy(who string) func(trace.Event) bool {
	return func(e trace.Event) bool { return e.Kind == trace.Asked && e.Who == who }
}

// events are those about the key.
func (c *company) events() []trace.Event {
	var all []trace.Event
	for _, a := range c.actors {
		for _, e := range a.Events() {
			if e.Key == c.key {
				all = append(all, e)
			}
		}
	}
	return all
}

// evidence is all that is known now. What a scene draws itself it draws before it has
// the evidence judged: the judge's own picture then comes second.
func (c *company) evidence() judge.Evidence {
	ev := judge.Evidence{LockStore: stage.LockStore(c.with.Policy.Lock)}
	if c.observer != nil {
		ev.Samples = c.observer.Samples()
	}
	ev.End = time.Now().UnixNano()
	ev.Events, ev.Faults = c.events(), c.Faults()
	return ev
}

// must ends the experiment where something could not be done.
func (c *company) must(err error) {
	if err != nil {
		c.Fatalf("%w", err)
	}
}

// until is what was known at a moment in the past.
func until(ev judge.Evidence, end int64) judge.Evidence {
	past := ev
	past.End, past.Events, past.Samples = end, nil, nil
	for _, e := range ev.Events {
		if e.At <= end {
			past.Events = append(past.Events, e)
		}
	}
	for _, s := range ev.Samples {
		if s.At <= end {
			past.Samples = append(past.Samples, s)
		}
	}
	return past
}

// sorted are events by time.
func sorted(events []trace.Event) []trace.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b trace.Event) int { return cmp.Compare(a.At, b.At) })
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
