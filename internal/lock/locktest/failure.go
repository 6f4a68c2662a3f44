package locktest

import (
	"context"
	"errors"
	"strings"
	"time"

	"seckill/internal/lock"
)

// fault is a plan with one fault.
func (t *trial) fault(f lock.Fault) *lock.Faults {
	plan, err := lock.NewFaults([]lock.Fault{f}, nil)
	t.check(err)
	return plan
}

func failedGrantIsGivenBack(t *trial) {
	p := t.process()
	fails := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectError})
	_, err := t.take(t.ctx, p, lock.Options{TTL: longLease, Faults: fails})
	if !errors.Is(err, lock.ErrInjected) {
		t.violated("a failure between grant and reply gave %v", err)
	}
	t.mustBeFree(p, "after a failure between grant and reply")

	stalls := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, PauseMS: trialLimit.Milliseconds()})
	ctx, cancel := context.WithTimeout(t.ctx, 50*time.Millisecond)
	defer cancel()
	_, err = t.take(ctx, p, lock.Options{TTL: longLease, Faults: stalls})
	t.expectContextError(err, context.DeadlineExceeded)
	t.mustBeFree(p, "after a context that ended between grant and reply")

	panics := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectPanic})
	if !t.panics(func() { _, _ = t.take(t.ctx, p, lock.Options{TTL: longLease, Faults: panics}) }) {
		t.violated("a panic between grant and reply did not reach the caller")
	}
	t.mustBeFree(p, "after a panic between grant and reply")
	t.mustBeEmpty("after three grants that were given back")
}

// panics reports that f did. A trial that f ends is ended.
func (t *trial) panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func abandonedGrantStays(t *trial) {
	p := t.process()
	dies := t.fault(lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectAbandon})
	_, err := t.take(t.ctx, p, lock.Options{TTL: longLease, Faults: dies})
	if !errors.Is(err, lock.ErrAbandoned) {
		t.violated("a death between grant and reply gave %v", err)
	}
	t.mustBeTaken(p, "that a dead holder still has")
}

func unavailableIsQuick(t *trial) {
	const quick = 2 * time.Second
	p, line := t.wired()
	line.Cut()
	for _, wait := range []time.Duration{0, trialLimit} {
		began := time.Now()
		_, err := t.take(t.ctx, p, lock.Options{TTL: longLease, Wait: wait})
		took := time.Since(began)
		if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrNotAcquired) {
			t.violated("without a server an acquisition gave %v", err)
		}
		if took > quick {
			t.violated("it took %v to find that there is no server", took)
		}
	}
	line.Mend()
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
		"a lease of a nanosecond": {t.key, lock.Options{TTL: 1, Wait: anyWait}},
	}
	for what, c := range cases {
		if _, err := t.takeKey(t.ctx, p, c.key, c.opts); !errors.Is(err, lock.ErrInvalid) {
			t.violated("%s gave %v", what, err)
		}
	}
	t.mustBeEmpty("after nothing but invalid requests")
	t.release(t.holdKey(t.ctx, p, strings.Repeat("k", lock.MaxKey), lock.Options{TTL: lock.MaxTTL}))
}

func refusesWrongKind(t *trial) {
	t.need(t.Store.Spoil != nil, "way to spoil a key")
	p := t.process()
	t.check(t.Store.Spoil(t.ctx, t.key))
	for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
		_, err := t.take(t.ctx, p, lock.Options{TTL: longLease, Wait: wait})
		if !errors.Is(err, lock.ErrWrongKind) {
			t.violated("a key that holds something else gave %v", err)
		}
	}
}
