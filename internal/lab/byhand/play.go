package byhand

import (
	"context"
	"errors"
	"time"

	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

const (
	lookEvery = 10 * time.Millisecond
	// replayPatience is how much longer than in the script a step of a replay may take.
	replayPatience = 30 * time.Second
)

// on is what a bench stands on while it is played.
type on struct {
	*Bench
	*place
	Setup
}

// Play starts the processes and makes the moves until the run's context ends, or nobody has moved
// anything for ten minutes.
func (b *Bench) Play(r *testbed.Rig) {
	o := &on{b, newPlace(r, b.setup), b.setup}
	for i, p := range o.processes {
		p.client = o.start(i+1, p.name)
	}
	b.mu.Lock()
	b.ready, b.touched = true, time.Now()
	b.mu.Unlock()
	b.changed()
	if len(b.script) > 0 {
		r.Go(o.replay)
	}
	ending := o.serve(r.Context(), o.make)
	b.mu.Lock()
	b.ending, b.replaying = ending, false
	b.mu.Unlock()
	b.changed()
}

// serve makes the moves until the end.
func (b *Bench) serve(ctx context.Context, move func(*turn)) Ending {
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	idle := time.NewTimer(idleLimit)
	defer idle.Stop()
	for {
		select {
		case t := <-b.todo:
			move(t)
			idle.Reset(idleLimit)
		case <-idle.C:
			return Idle
		case <-limit.C:
			return TooLong
		case <-ctx.Done():
			return Ended
		}
	}
}

// make makes a move. What may take long goes on beside the next moves.
func (o *on) make(t *turn) {
	ctx := o.run.Context()
	switch {
	case t.Action.is(ofProcess()):
		o.makeOf(ctx, t, o.processes[t.Number-1])
	case t.Action.is(ofNode()):
		if t.Action == KillNode {
			o.killNode(t.Number)
		} else {
			o.startNode(t.Number)
		}
		o.is(func() { o.down[t.Number-1] = t.Action == KillNode })
		o.finish(t, told(nil))
	default:
		o.makeOfStore(ctx, t)
	}
}

// makeOf makes a move of a process.
func (o *on) makeOf(ctx context.Context, t *turn, p *process) {
	switch t.Action {
	case Acquire:
		o.aside(t, func() error { return o.acquire(ctx, p) })
		return
	case Write:
		o.aside(t, func() error { return o.write(ctx, p) })
		return
	case Release:
		o.aside(t, func() error { return o.release(ctx, p) })
		return
	case Pause:
		p.client.Pause()
		o.is(func() { p.paused = true })
	case Resume:
		p.client.Resume()
		o.is(func() { p.paused = false })
	case Kill:
		p.client.Kill()
		o.is(func() { p.dead, p.paused = true, false })
	case Cut:
		restore := o.cut(t.Number, p.name)
		o.is(func() { p.restore = restore })
	case Restore:
		p.restore()
		o.is(func() { p.restore = nil })
	}
	o.finish(t, told(nil))
}

// makeOfStore makes a move of the store.
func (o *on) makeOfStore(ctx context.Context, t *turn) {
	switch t.Action {
	case Expire:
		o.aside(t, func() error { return o.awaitExpiry(ctx) })
	case CatchUp:
		o.aside(t, func() error {
			err := o.catchUp(ctx)
			o.is(func() { o.lagging = err != nil })
			return err
		})
	case Delete:
		deleted := o.run.Fault(i18n.F("the key is deleted"))
		err := o.remove(ctx)
		deleted()
		o.finish(t, told(err))
	case Lag:
		o.lag()
		o.is(func() { o.lagging = true })
		o.finish(t, told(nil))
	case FailOver:
		err := o.failOver(ctx)
		o.is(func() { o.failedOver, o.lagging = true, false })
		o.finish(t, told(err))
	}
}

// is changes the state.
func (o *on) is(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// aside does something that may take long.
func (o *on) aside(t *turn, do func() error) {
	o.run.Go(func() { o.finish(t, told(do())) })
}

func (o *on) acquire(ctx context.Context, p *process) error {
	g, err := p.client.Acquire(ctx, lockclient.Acquire{
		Lock: o.Lock, Key: o.key, Who: p.who, Wait: time.Duration(o.Wait) * time.Second, TTL: o.ttl(),
	})
	if err != nil {
		return err
	}
	looking, stop := context.WithCancel(ctx)
	o.is(func() { p.lease, p.lost, p.stopLook = g.Lease, false, stop })
	o.run.Go(func() {
		if _, err := p.client.AwaitLoss(looking, g.Lease); err != nil {
			return
		}
		o.is(func() { p.lost = p.lease == g.Lease })
		o.changed()
	})
	return nil
}

// ttl is the fixed lease; 0: there is none.
func (o *on) ttl() time.Duration {
	if kind := o.mechanism().Ends; o.Renew || kind != lock.EndsAfterLease && kind != lock.EndsUnlessRenewed {
		return 0
	}
	return time.Duration(o.Lease) * time.Second
}

// write takes one from the stock, as a program that does not ask whether it still has the lock.
func (o *on) write(ctx context.Context, p *process) error {
	mode := voucher.StockConditional
	if o.Lock == "fenced" {
		mode = voucher.StockFenced
	}
	return p.client.Write(ctx, lockclient.Write{Voucher: o.voucher, Lease: o.leaseOf(p), IgnoreLoss: true, Mode: mode})
}

// release gives the lease back. If the answer is missing, the process may release again, unless it
// knows that it has lost the lock.
func (o *on) release(ctx context.Context, p *process) error {
	err := p.client.Release(ctx, o.leaseOf(p))
	o.is(func() {
		if p.unsure = !p.lost && lockclient.KindOf(err) == lockclient.Unavailable; p.unsure {
			return
		}
		p.stopLook()
		p.lease, p.lost = "", false
	})
	return err
}

func (o *on) leaseOf(p *process) (l lockclient.Lease) {
	o.is(func() { l = p.lease })
	return l
}

// The results of waiting for the end of a lease.
var (
	errFree    = errors.New("bench: the key is free")
	errNoEnd   = errors.New("bench: the key has no end")
	errRenewed = errors.New("bench: the lease was renewed")
	errStays   = errors.New("bench: the key is still there")
)

// awaitExpiry waits until the key that is there is gone: it is not there, or another one is. A
// lease that was renewed, and a session that goes on, are no longer waited for.
func (o *on) awaitExpiry(ctx context.Context) error {
	const renewal = 20 * time.Millisecond // less is an error of measurement
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Duration(o.Lease)*time.Second+5*time.Second, errStays)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for last := (lock.State{}); ; {
		now, err := o.store.Inspect(ctx, o.key)
		longer := now.TTL > last.TTL+renewal
		switch {
		case err != nil: // the store may come back
		case last.Owner == "" && now.Owner == "":
			return errFree
		case last.Owner == "" && now.TTL == lock.NoExpiry && o.mechanism().Ends != lock.EndsWithSession:
			return errNoEnd
		case last.Owner == "":
			last = now
		case now.Owner != last.Owner || now.Token != last.Token || longer && !o.Renew:
			return nil
		case longer:
			return errRenewed
		default:
			last = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// outcomes are what can come of a move besides the errors of a process.
func outcomes() []outcome {
	return []outcome{
		{errFree, "free"}, {errNoEnd, "no-end"}, {errRenewed, "renewed"}, {errStays, "stays"},
		{errWithKey, "with-key"}, {errWithoutKey, "without-key"}, {lockclient.ErrDead, "dead"},
	}
}

type outcome struct {
	err  error
	told string
}

// told names what came of a move.
func told(err error) string {
	if err == nil {
		return "done"
	}
	for _, one := range outcomes() {
		if errors.Is(err, one.err) {
			return one.told
		}
	}
	return string(lockclient.KindOf(err))
}

// Tolds lists what [Turn.Told] can be, apart from the errors of a process.
func Tolds() []string {
	all := []string{"done"}
	for _, one := range outcomes() {
		all = append(all, one.told)
	}
	return all
}

// replay makes the moves of the script. If one is not possible when it is due, it stops there.
func (o *on) replay() {
	stopped := false
	var before *turn
	for _, s := range o.script {
		if before, stopped = o.replayStep(s, before); stopped {
			break
		}
	}
	o.is(func() { o.replaying, o.stopped = false, stopped })
	o.changed()
}

func (o *on) replayStep(s Step, before *turn) (made *turn, stopped bool) {
	ctx, cancel := context.WithTimeout(o.run.Context(), s.After+(maxLease+maxWait)*time.Second+replayPatience)
	defer cancel()
	if before != nil && s.Done {
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, true
		}
	}
	due := time.NewTimer(s.After)
	defer due.Stop()
	select {
	case <-due.C:
	case <-ctx.Done():
		return nil, true
	}
	patience := time.NewTimer(replayPatience)
	defer patience.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		o.mu.Lock()
		t, err := o.begin(s.Move)
		o.mu.Unlock()
		if err == nil {
			o.changed()
			return t, false
		}
		select {
		case <-tick.C: // a process may be slower than it was
		case <-patience.C:
			return nil, true
		case <-ctx.Done():
			return nil, true
		}
	}
}
