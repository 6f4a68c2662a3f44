package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Why a voucher is not forgotten.
var (
	errNotYet     = errors.New("the voucher cannot be forgotten yet")
	errUnbalanced = errors.New("the voucher does not balance")
)

const (
	// vouchersPerPage is how many vouchers are listed at a time.
	vouchersPerPage = 100
	// streamGrace is how long the streams of a forgotten voucher stay. By then the consumers of all processes have
	// found that there is nothing left to read.
	streamGrace = 3 * time.Second
	// unbalancedPause is when a voucher that does not balance is looked at again.
	unbalancedPause = 10 * time.Minute
	// maxFailed is how many vouchers in a row may fail. After so many it is not their own fault: a server does not
	// answer.
	maxFailed = 3
	// forgetLease bounds how long a process that dies keeps other processes from opening the voucher. The work under
	// the lock takes some milliseconds.
	forgetLease = 3 * time.Second
)

// ForgetConfig says when vouchers are forgotten. After, Balances and Log are required.
type ForgetConfig struct {
	// After is how long after its sale a voucher is forgotten.
	After time.Duration
	// Every is how often vouchers are looked for. Default: a quarter of After, from 1 s to 30 s.
	Every time.Duration
	// Balances reports whether the stock equation of a voucher holds; it counts the orders.
	Balances func(ctx context.Context, v contract.AdmissionVoucher) (bool, error)
	Log      *slog.Logger
	// Forgotten is called for each voucher that this process marked as forgotten. Kept is called each time that all
	// vouchers were looked at, with the number of those that are kept because they do not balance. Both may be nil.
	Forgotten func()
	Kept      func(vouchers int)
}

// Forgetter removes the data of vouchers from Redis whose sale ended long ago and whose orders are all in the database.
// Several processes may do so at the same time, and each of them may stop anywhere: see the package's documentation.
type Forgetter struct {
	gate   *Gate
	config ForgetConfig
	after  int64 // the last voucher of the previous round, if that was not finished
	notes        // what is known
	// listed are the notes of the vouchers that were looked at since the list was begun. At its end they replace the
	// others, which may be of vouchers that are gone.
	listed notes
}

// notes is what a round must know of earlier ones.
type notes struct {
	unbalanced map[int64]time.Time // by voucher: when it is looked at again
	firstSeen  map[int64]time.Time // by forgotten voucher
}

func newNotes() notes {
	return notes{unbalanced: map[int64]time.Time{}, firstSeen: map[int64]time.Time{}}
}

// Forgetter returns a forgetter for the gate's vouchers.
func (g *Gate) Forgetter(c ForgetConfig) (*Forgetter, error) {
	if c.After <= 0 || c.Balances == nil || c.Log == nil {
		return nil, errors.New("admission: incomplete configuration of the forgetter")
	}
	if c.Every == 0 {
		c.Every = min(max(c.After/4, time.Second), 30*time.Second)
	}
	return &Forgetter{gate: g, config: c, notes: newNotes(), listed: newNotes()}, nil
}

// Run looks for vouchers to forget until ctx ends.
func (f *Forgetter) Run(ctx context.Context) {
	for {
		select {
		case <-time.After(f.config.Every*4/5 + rand.N(f.config.Every*2/5)): // processes take turns
			f.Round(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Round takes one step for each voucher that is due. It passes over a voucher that fails. If several in a row do, it
// ends, and the next round continues from there.
func (f *Forgetter) Round(ctx context.Context) {
	if f.gate.config.paired() != nil {
		return
	}
	failed := 0
	for {
		vouchers, err := f.gate.config.Store.UnclearedVouchers(ctx, time.Now().Add(-f.config.After), f.after, vouchersPerPage)
		if err != nil {
			f.warn(ctx, "the vouchers to forget are not known", 0, err)
			return
		}
		for _, v := range vouchers {
			f.after = v.VoucherID
			err := f.voucher(ctx, v)
			if err == nil {
				failed = 0
				continue
			}
			f.warn(ctx, "a voucher could not be forgotten", v.VoucherID, err)
			if failed++; failed == maxFailed || ctx.Err() != nil {
				return
			}
		}
		if len(vouchers) < vouchersPerPage {
			break
		}
	}
	f.after, f.notes, f.listed = 0, f.listed, newNotes()
	if f.config.Kept != nil {
		f.config.Kept(len(f.unbalanced))
	}
}

// voucher takes the next step for one voucher, and notes what later rounds must know.
func (f *Forgetter) voucher(ctx context.Context, v contract.AdmissionVoucher) error {
	id, now := v.VoucherID, time.Now()
	until, wasUnbalanced := f.unbalanced[id]
	if now.Before(until) {
		f.listed.unbalanced[id] = until
		return nil
	}
	since, known := f.firstSeen[id]
	if !known {
		since = now
	}
	err := f.step(ctx, v, now.Sub(since) >= streamGrace)
	switch {
	case errors.Is(err, errUnbalanced):
		if !wasUnbalanced {
			f.config.Log.Error("a voucher is not forgotten: it does not balance", "voucher", id, "error", err)
		}
		until = now.Add(unbalancedPause)
		f.listed.unbalanced[id], f.unbalanced[id] = until, until
	case err == nil:
		f.listed.firstSeen[id], f.firstSeen[id] = since, since
	case !errors.Is(err, errNotYet) && !errors.Is(err, voucher.ErrNotFound):
		if wasUnbalanced { // and nothing says that it is not any more
			f.listed.unbalanced[id] = until
		}
		if known {
			f.listed.firstSeen[id] = since
		}
		return err
	}
	return nil
}

// step marks the voucher as forgotten or, if it is, removes what Redis has of it; with all, the streams too.
func (f *Forgetter) step(ctx context.Context, av contract.AdmissionVoucher, all bool) error {
	st, err := f.gate.config.Store.EpochState(ctx, av.VoucherID)
	if err != nil {
		return err
	}
	v := newVoucherState(f.gate.core, voucherOf(av.VoucherID, st)) // not kept: no request waits in it
	if !st.Forgotten {
		if st, err = f.mark(ctx, v, av, st); err != nil {
			return err
		}
	}
	if known := f.gate.known(v.id); known != nil {
		f.gate.drop(known)
	}
	return f.clear(ctx, v, st.Epoch, all)
}

// mark closes a voucher that is due and at rest, and marks it as forgotten if it is still at rest then.
func (f *Forgetter) mark(
	ctx context.Context, v *voucherState, av contract.AdmissionVoucher, st contract.EpochState,
) (contract.EpochState, error) {
	all := v.states(ctx)
	if err := f.atRest(ctx, v, all, st); err != nil {
		return st, err
	}
	comparable := comparable(all, st)
	switch balances, err := f.config.Balances(ctx, av); {
	case err != nil:
		return st, err
	case !balances:
		return st, errUnbalanced
	}

	// The lock spares other processes the work of opening the voucher meanwhile. Without it nothing would go wrong: the
	// mark is made only under the epoch that is closed here.
	lease, err := v.config.Locker.Acquire(ctx, v.lockKey(), lock.Options{TTL: forgetLease})
	if err != nil {
		return st, fmt.Errorf("%w: %w", errNotYet, err)
	}
	defer func() { _ = lock.Release(ctx, lease) }()
	ctx = lease.Context()
	if st, err = v.closeEpoch(ctx); err != nil {
		return st, err
	}
	all = v.states(ctx)
	if err := f.atRest(ctx, v, all, st); err != nil {
		return st, err
	}
	if comparable && !agree(all, st) {
		return st, fmt.Errorf("%w: Redis has another stock than the database, %d", errUnbalanced, st.Stock)
	}
	switch err := v.config.Store.Forget(ctx, v.id, st.Epoch, time.Now().Add(-f.config.After)); {
	case errors.Is(err, order.ErrConflict):
		return st, fmt.Errorf("%w: %w", errNotYet, err)
	case err != nil:
		return st, err
	}
	f.config.Log.Info("voucher forgotten", "voucher", v.id, "epoch", st.Epoch)
	if f.config.Forgotten != nil {
		f.config.Forgotten()
	}
	return st, nil
}

// atRest returns nil if the sale has been over for long enough, by the servers' clocks too, and no order is pending. It
// finishes transfers of which stock is in transit.
func (f *Forgetter) atRest(ctx context.Context, v *voucherState, all []ledger.State, st contract.EpochState) error {
	lost, err := lostTransfer(all, func() []ledger.State { return v.states(ctx) })
	switch err := cmp.Or(firstError(all), err); {
	case err != nil:
		return err
	case lost:
		return fmt.Errorf("%w: Redis has lost a transfer", errUnbalanced)
	}
	due := st.EndAt.Add(f.config.After).UnixMilli()
	var transit int64
	for i := range all {
		if all[i].Now < due || all[i].Pending > 0 {
			return fmt.Errorf("%w: bucket %d has %d pending orders", errNotYet, i, all[i].Pending)
		}
		transit += all[i].Lent()
	}
	if transit != 0 && all[0].Epoch == st.Epoch && st.Open() {
		if _, err := v.finishTransfers(ctx, all, st.Epoch); err != nil {
			return err
		}
		return fmt.Errorf("%w: stock was in transit", errNotYet)
	}
	return nil
}

// comparable reports whether Redis holds the stock of the database's epoch, or of the epoch that was closed last.
// Otherwise its stock means nothing: Redis was emptied or has older data, or a script stopped in its middle.
func comparable(all []ledger.State, st contract.EpochState) bool {
	for i := range all {
		if all[i].Torn || all[i].Stock < 0 || all[i].Epoch != st.Epoch && (st.Open() || all[i].Epoch != st.Epoch-1) {
			return false
		}
	}
	return true
}

// agree reports whether Redis holds the database's stock, and every decision that the database holds.
func agree(all []ledger.State, st contract.EpochState) bool {
	var stock int64
	for i := range all {
		stock += all[i].Share() - all[i].Arrived
		if all[i].Seq < st.Seq[i] {
			return false
		}
	}
	return stock == st.Stock-st.Returned // what was given back may be on its way
}

// clear removes the data of a voucher that was forgotten under an epoch from Redis. That includes keys that a late
// process wrote again. Once Redis holds nothing, clear records that in the database.
func (f *Forgetter) clear(ctx context.Context, v *voucherState, epoch int64, all bool) error {
	left := int64(0)
	for _, b := range v.buckets {
		r, err := v.ledger.Remove(ctx, b.keys, epoch, all)
		if err != nil {
			return err
		}
		left += r.Keys
		switch r.Verdict {
		case ledger.Removed:
		case ledger.StillPending:
			f.config.Log.Warn("a forgotten voucher has pending orders", "voucher", v.id, "bucket", b.number)
		default: // Redis has older data, or a key that came back has no epoch
			now, err := v.ledger.Close(ctx, b.keys, epoch)
			if err != nil {
				return err
			}
			if now > epoch { // by another process, or the mark is older than what Redis has
				if _, err := v.closeAbove(ctx, now); err != nil && !errors.Is(err, errEpochChanged) {
					return err
				}
				return fmt.Errorf("%w: opened again under epoch %d", errNotYet, now)
			}
		}
	}
	if left > 0 {
		return nil
	}
	if err := v.config.Store.Cleared(ctx, v.id, epoch); err != nil && !errors.Is(err, order.ErrConflict) {
		return err
	}
	return nil
}

func (f *Forgetter) warn(ctx context.Context, what string, voucherID int64, err error) {
	if ctx.Err() == nil {
		f.config.Log.Warn("forgetting: "+what, "voucher", voucherID, "error", err)
	}
}
