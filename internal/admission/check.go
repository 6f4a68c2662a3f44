package admission

import (
	"cmp"
	"context"
	"errors"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/voucher"
)

// check closes and reopens the voucher if Redis is behind the database, or behind what this process has seen. It also
// finishes transfers that another process left unfinished. If the voucher is forgotten, or has another window, check
// reports that this state is of no more use. Otherwise it reports whether Redis holds the voucher as this process knew
// it, as far as that can be read.
func (v *voucherState) check(ctx context.Context) (useless, same bool) {
	before := v.knownStates()
	st, err := v.epochState(ctx)
	if err != nil {
		v.config.Log.Warn("admission cannot be compared with the database", "voucher", v.id, "error", err)
		return errors.Is(err, voucher.ErrNotFound), true
	}
	if st.Forgotten || !windowOf(st).same(v.window) {
		return true, true
	}
	var epoch int64
	for _, known := range before {
		epoch = max(epoch, known.Epoch)
	}
	all := v.states(ctx)
	if epoch == 0 {
		// Closed: the first buyer opens it. No buyer does while the clock of Redis, when it was last read, showed that
		// the sale is over. That may have been wrong, so it was read again.
		return false, true
	}
	lost, err := lostTransfer(all, func() []ledger.State { return v.states(ctx) })
	if err := cmp.Or(firstError(all), err); err != nil {
		v.config.Log.Warn("admission cannot be compared with Redis", "voucher", v.id, "error", err)
		return false, true
	}
	if !v.compare(before, all, st, lost) {
		v.reopen()
		return false, false
	}
	if _, err := v.finishTransfers(ctx, all, epoch); err != nil {
		v.config.Log.Warn("admission has stock in transit", "voucher", v.id, "error", err)
	}
	return false, true
}

// compare marks each bucket as closed that differs from what this process and the database know, and reports whether
// none does.
func (v *voucherState) compare(before []ledger.Known, all []ledger.State, st contract.EpochState, lost bool) (same bool) {
	same = true
	for i, b := range v.buckets {
		was, now := before[i], &all[i]
		switch {
		case was.Epoch == 0: // the requests that found it closed may have left
			same = false
		case now.Epoch != was.Epoch || st.Epoch != was.Epoch || now.Generation < v.config.generation() || otherWindow(now, st):
			same = false
			_ = v.markClosed(b, was.Epoch, ledger.Closed)
		case now.Torn:
			same = false
			_ = v.markClosed(b, was.Epoch, ledger.Torn)
		case lost || behind(now, st, i) || now.Seq < was.Seq || now.Returned < was.Returned:
			same = false
			_ = v.markClosed(b, was.Epoch, ledger.DataLost)
		}
	}
	return same
}
