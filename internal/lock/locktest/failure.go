package locktest

import (
	"context"
	"errors"
	"strings"
	"time"

	"seckill/internal/lock"
)

// fault makes a plan with one fault.
func (t *trial) fault(f lock.Fault) *lock.Faults {
	plan, err := lock.NewFaults([]lock.Fault{f}, nil)
	t.checkErr(err)
	return plan
}

func failedGrantIsGivenBack(t *trial) {
	p := t.process()
	fails := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectError})
	_, err := t.acquire(lock.WithFaults(t.ctx, fails), p, lock.Options{TTL: t.long})
	if !errors.Is(err, lock.ErrInjected) {
		t.violated("a failure between grant and reply gave %v", err)
	}
	t.mustBeFree(p, "after a failure between grant and reply")

	stalls := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, PauseMS: lock.MaxFaultPause.Milliseconds()})
	ctx, cancel := context.WithTimeout(t.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = t.acquire(lock.WithFaults(ctx, stalls), p, lock.Options{TTL: t.long})
	t.expectContextError(err, context.DeadlineExceeded)
	t.mustBeFree(p, "after a context that ended between grant and reply")

	panics := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectPanic})
	if !t.panics(func() { _, err = t.acquire(lock.WithFaults(t.ctx, panics), p, lock.Options{TTL: t.long}) }) {
		t.checkErr(err) // it was not granted
		t.violated("a panic between grant and reply did not reach the caller")
	}
	t.mustBeFree(p, "after a panic between grant and reply")
	t.mustBeEmpty("after three grants that were given back")
}

// panics reports whether f panicked. If f ends the trial, the trial has ended.
func (t *trial) panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func abandonedGrantStays(t *trial) {
	p := t.process()
	dies := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectAbandon})
	_, err := t.acquire(lock.WithFaults(t.ctx, dies), p, lock.Options{TTL: t.long})
	if !errors.Is(err, lock.ErrAbandoned) {
		t.violated("a death between grant and reply gave %v", err)
	}
	t.mustBeTaken(p, "that a dead holder still has")
}

func unavailableIsQuick(t *trial) {
	quick := t.within(2 * time.Second)
	p, network := t.processOnNetwork()
	network.Cut()
	began := time.Now()
	var tries []<-chan outcome
	for _, wait := range []time.Duration{0, t.limit} { // beside each other: a mechanism may look for a server for a while
		tries = append(tries, t.acquireAsync(t.ctx, p, lock.Options{TTL: t.long, Wait: wait}))
	}
	for _, try := range tries {
		got := <-try
		if !errors.Is(got.err, lock.ErrUnavailable) || errors.Is(got.err, lock.ErrNotAcquired) {
			t.violated("without a server an acquisition gave %v", got.err)
		}
		if took := got.at.Sub(began); took > quick {
			t.violated("it took %v to report that there is no server", took)
		}
	}
	network.Restore()
	t.mustBeFree(p, "after the server came back")
}

func refusesInvalid(t *trial) {
	p := t.process()
	cases := map[string]struct {
		key  string
		opts lock.Options
	}{
		"an empty key":            {"", lock.Options{}},
		"an overlong key":         {strings.Repeat("k", lock.MaxKey+1), lock.Options{}},
		"a brace in the key":      {"seat{1}", lock.Options{}},
		"a negative lease":        {t.key, lock.Options{TTL: -time.Second}},
		"a lease below a ms":      {t.key, lock.Options{TTL: lock.MinTTL - 1}},
		"a lease of a day":        {t.key, lock.Options{TTL: 24 * time.Hour}},
		"a negative wait limit":   {t.key, lock.Options{Wait: -1}},
		"a lease of a nanosecond": {t.key, lock.Options{TTL: 1, Wait: t.limit}},
	}
	for what, c := range cases {
		if _, err := t.acquireKey(t.ctx, p, c.key, c.opts); !errors.Is(err, lock.ErrInvalid) {
			t.violated("%s gave %v", what, err)
		}
	}
	t.mustBeEmpty("after invalid requests only")
	t.mustRelease(t.mustAcquireKey(t.ctx, p, strings.Repeat("k", lock.MaxKey), lock.Options{TTL: lock.MaxTTL}))
}

func refusesWrongKind(t *trial) {
	t.require(t.Store.PutWrongKind != nil, "way to spoil a key")
	p := t.process()
	t.checkErr(t.Store.PutWrongKind(t.ctx, t.key))
	for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
		_, err := t.acquire(t.ctx, p, lock.Options{TTL: t.long, Wait: wait})
		if !errors.Is(err, lock.ErrWrongKind) {
			t.violated("a key with a value of another kind gave %v", err)
		}
	}
}
