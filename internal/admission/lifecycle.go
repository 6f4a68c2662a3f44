package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// lifecycle is the state of a voucher in this process. The voucher is open if every bucket has a known epoch.
//
//	            a request needs a bucket,
//	            check finds one closed                 found open, or rebuilt
//	  closed -----------------------------> opening ----------------------------> open
//	    ^  ^                                 |   ^                                  |
//	    |  |  the voucher is gone, forgotten |   | an attempt fails:                |
//	    |  +--- or has another window -------+   +-- again, after a pause           |
//	    |                                                                           |
//	    +-- a script or check finds a bucket closed or behind: markClosed ----------+
//
//	state    known epochs       opening       requests
//	closed   one of them is 0   nil           start the opening and wait
//	opening  one of them is 0   open channel  wait, at most Config.OpenWait
//	open     all even           nil           are decided in Redis
//
// An attempt finds the voucher open if the database and all buckets have the same even epoch, the same window, and
// Redis has everything that the database has. Otherwise one process rebuilds it under a lock; see rebuild.go. The lock
// only spares other processes the same work. What keeps them apart is the epoch.
type lifecycle struct {
	// lostEpoch is the last epoch of which Redis has lost data, or in which a script stopped in its middle. It is never
	// trusted again.
	lostEpoch int64
	// logged: it was logged that the voucher is closed.
	logged bool
	// opening is closed when the opening that is under way ends; nil if none is.
	opening chan struct{}
	begun   time.Time // when the opening began
	err     error     // of the last attempt
}

const (
	firstRetry = 10 * time.Millisecond
	maxRetry   = 500 * time.Millisecond
	// lockWait is how long to wait for another process that opens the voucher, before looking whether it is open: a
	// process that died leaves its lock behind.
	lockWait = 500 * time.Millisecond
)

// noLimit is longer than anybody waits.
const noLimit = 1000 * time.Hour

// openFully waits until a bucket is open.
func (v *voucherState) openFully(ctx context.Context, b *bucket) error {
	for {
		switch _, err := v.awaitOpen(ctx, b, noLimit); {
		case err == nil || final(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, errOpening):
			return unavailable(err)
		}
	}
}

// awaitOpen returns what is known of an open bucket. If the bucket is closed, awaitOpen opens the voucher, and waits
// until the opening has taken for wait, or ctx ends.
func (v *voucherState) awaitOpen(ctx context.Context, b *bucket, wait time.Duration) (ledger.Known, error) {
	if known := b.knownState(); known.Epoch != 0 {
		return known, nil
	}
	v.mu.Lock()
	known := b.knownState()
	if known.Epoch == 0 {
		v.startOpening()
	}
	opening, limit := v.lifecycle.opening, time.NewTimer(time.Until(v.lifecycle.begun.Add(wait)))
	v.mu.Unlock()
	defer limit.Stop()
	if known.Epoch != 0 {
		return known, nil
	}
	if opening != nil {
		select {
		case <-opening:
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known = b.knownState()
	switch {
	case known.Epoch != 0:
		return known, nil
	case v.lifecycle.err == nil:
		return ledger.Known{}, errOpening
	case v.lifecycle.opening == nil: // the opening was given up
		return ledger.Known{}, v.lifecycle.err
	}
	return ledger.Known{}, fmt.Errorf("%w: %w", errOpening, v.lifecycle.err)
}

// reopen starts to open a voucher that is closed.
func (v *voucherState) reopen() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.startOpening()
}

// reopenClosed starts to open a voucher of which a bucket is closed as far as this process knows, and reports whether
// it does. It does not if the opening is under way.
func (v *voucherState) reopenClosed() bool {
	open := !slices.ContainsFunc(v.knownStates(), func(k ledger.Known) bool { return k.Epoch == 0 })
	v.mu.Lock()
	defer v.mu.Unlock()
	if open || v.lifecycle.opening != nil {
		return false
	}
	v.startOpening()
	return true
}

// openingFor returns how long the opening has been under way, 0 if none is.
func (v *voucherState) openingFor() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lifecycle.opening == nil {
		return 0
	}
	return time.Since(v.lifecycle.begun)
}

// startOpening starts to open the voucher, unless that is under way. v.mu is held.
func (v *voucherState) startOpening() {
	if v.lifecycle.opening != nil {
		return
	}
	v.lifecycle.opening, v.lifecycle.begun, v.lifecycle.err = make(chan struct{}), time.Now(), nil
	if !v.spawn(v.open) {
		v.lifecycle.opening, v.lifecycle.err = nil, errClosed
	}
}

// open opens the voucher, however long that takes. It ends when the voucher is open, an error is final, or the gate
// closes.
func (v *voucherState) open() {
	begun := time.Now()
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		known, err := v.tryOpen(v.closing)
		last, err := v.finishAttempt(known, err)
		if last && err == nil {
			v.config.Log.Info("admission open", "voucher", v.id, "epoch", known[0].Epoch, "took", time.Since(begun).String())
			v.config.Observer.opened(time.Since(begun), known[0].Epoch)
		}
		if last {
			return
		}
		// Another process opens the voucher, or died while it did. The wait for its lock was the pause.
		if errors.Is(err, lock.ErrNotAcquired) {
			pause = firstRetry
		}
		if pause >= maxRetry/2 { // what is over in a moment is not worth a log line
			v.config.Log.Warn("admission cannot be opened yet", "voucher", v.id, "error", err)
		}
		_ = sleep(v.closing, pause)
	}
}

// tryOpen finds the voucher open, or rebuilds it unless another process does.
func (v *voucherState) tryOpen(ctx context.Context) ([]ledger.Known, error) {
	if known, err := v.findOpen(ctx); !errors.Is(err, errBehind) {
		return known, err
	}
	lease, err := v.config.Locker.Acquire(ctx, v.lockKey(), lock.Options{Wait: lockWait})
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Release(ctx, lease) }() // a lock that is lost does no harm: the epoch decides
	ctx = lease.Context()
	if known, err := v.findOpen(ctx); !errors.Is(err, errBehind) {
		return known, err
	}
	if err := v.config.Confirm(ctx); err != nil {
		return nil, err
	}
	if err := v.rebuild(ctx); err != nil {
		return nil, err
	}
	return v.findOpen(ctx)
}

// lockKey names the lock under which the voucher is opened or forgotten.
func (v *voucherState) lockKey() string { return "admission:" + strconv.FormatInt(v.id, 10) }

// findOpen finds the voucher open: in the database, and all buckets in Redis under the same epoch, with everything that
// the database has. Otherwise the error is errBehind.
func (v *voucherState) findOpen(ctx context.Context) ([]ledger.Known, error) {
	generation, err := v.config.Generation()
	if err != nil {
		return nil, err
	}
	// The database is read first, so that orders persisted in between are no reason to distrust Redis.
	st, err := v.epochState(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case len(st.Seq) != len(v.buckets):
		return nil, fmt.Errorf("%w: %d, the database has %d", errBucketCount, len(v.buckets), len(st.Seq))
	case !windowOf(st).same(v.window):
		return nil, fmt.Errorf("%w: it ends at %v", errWindowChanged, st.EndAt)
	case st.Forgotten && !st.EndAt.After(time.Now()):
		return nil, voucher.ErrEnded
	}
	all := v.states(ctx)
	lost, err := lostTransfer(all, func() []ledger.State { return v.states(ctx) })
	if err := cmp.Or(firstError(all), err); err != nil {
		return nil, err
	}
	v.mu.Lock()
	lostEpoch := v.lifecycle.lostEpoch
	v.mu.Unlock()
	known := make([]ledger.Known, len(all))
	for i := range all {
		now := &all[i]
		if lost || behind(now, st, i) || otherWindow(now, st) || now.Epoch <= lostEpoch || now.Generation < generation {
			return nil, fmt.Errorf("%w: bucket %d has epoch %d, seq %d and generation %d, not %d, %d and %d",
				errBehind, i, now.Epoch, now.Seq, now.Generation, st.Epoch, st.Seq[i], generation)
		}
		known[i] = ledger.Known{Epoch: now.Epoch, Seq: now.Seq, Returned: now.Returned}
	}
	return known, nil
}

// finishAttempt applies the result of an attempt, and reports whether the attempt was the last. It applies nothing of
// an epoch whose data Redis was found to have lost in the meantime.
func (v *voucherState) finishAttempt(known []ledger.Known, err error) (last bool, _ error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for number, k := range known {
		if k.Epoch <= v.lifecycle.lostEpoch {
			err = fmt.Errorf("%w: bucket %d, epoch %d", errDataLost, number, k.Epoch)
		}
	}
	v.lifecycle.err = err
	if err != nil && v.closing.Err() == nil && !final(err) {
		return false, err
	}
	if err == nil {
		v.clearSoldOut() // it may be open again with more stock
		for number, k := range known {
			v.buckets[number].adopt(k)
		}
		v.lifecycle.logged = false
	}
	close(v.lifecycle.opening)
	v.lifecycle.opening = nil
	return true, err
}

// final reports whether another attempt would not open the voucher either: the voucher is gone, or forgotten, or has
// another window than the state was created for.
func final(err error) bool {
	return errors.Is(err, voucher.ErrNotFound) || errors.Is(err, voucher.ErrEnded) || errors.Is(err, errWindowChanged)
}

// markClosed notes that a bucket is not open under an epoch, and returns why. The next request opens the voucher.
func (v *voucherState) markClosed(b *bucket, epoch int64, why ledger.Verdict) error {
	cause, lost := errNotOpen, true
	switch why {
	case ledger.DataLost:
		cause = errDataLost
	case ledger.Torn:
		cause = errTorn
	default:
		lost = false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	wasOpen := b.forgetEpoch(epoch)
	if lost { // also if the bucket was closed before for another reason
		v.lifecycle.lostEpoch = max(v.lifecycle.lostEpoch, epoch)
	}
	if wasOpen && !v.lifecycle.logged { // once for all buckets
		v.lifecycle.logged = true
		v.config.Log.Warn("admission closed", "voucher", v.id, "epoch", epoch, "error", cause)
		v.config.Observer.closed(cause)
	}
	return cause
}
