package admission

import (
	"context"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
)

// states reads all buckets in Redis.
func (v *voucherState) states(ctx context.Context) []ledger.State {
	return v.statesOf(ctx, storeTimeout, v.buckets)
}

// maxUnreachable is for how long rebalancing skips a bucket that did not answer. It is at most half of
// [Config.DecisionTimeout], so that the bucket is tried again while requests still wait.
const maxUnreachable = time.Second

// statesOf reads some buckets in Redis. The result has an element for every bucket. Buckets that were not read have
// errUnreachable.
func (v *voucherState) statesOf(ctx context.Context, timeout time.Duration, some []*bucket) []ledger.State {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	keys := make([]ledger.Keys, len(some))
	for i, b := range some {
		keys[i] = b.keys
	}
	all := make([]ledger.State, len(v.buckets))
	for i := range all {
		all[i].Err = errUnreachable
	}
	for i, s := range v.ledger.States(ctx, keys) {
		b := some[i]
		all[b.number] = s
		heard := s.Heard.Sub(v.started)
		switch {
		case s.Err == nil:
			b.syncClock(heard, s.Now)
			b.unreachableUntil.Store(0)
		case s.Heard.Sub(asked) >= timeout: // a bucket that refuses at once delays nobody
			b.unreachableUntil.Store(int64(heard + min(maxUnreachable, v.config.DecisionTimeout/2)))
		}
	}
	return all
}

// firstError returns why the state of one of the buckets is not known, or nil if all states are known.
func firstError(all []ledger.State) error {
	for i := range all {
		if all[i].Err != nil {
			return all[i].Err
		}
	}
	return nil
}

// otherWindow reports whether a bucket in Redis has another window than the database, or is paused while the database's
// sale is not, or the reverse.
func otherWindow(now *ledger.State, st contract.EpochState) bool {
	want := windowIn(st)
	return now.Begin != want.Begin || now.End != want.End || now.Paused != want.Paused
}

// behind reports whether a bucket in Redis lacks something that the database held before the bucket was read.
func behind(now *ledger.State, st contract.EpochState, number int) bool {
	return !now.Open() || !st.Open() || now.Epoch != st.Epoch || now.Seq < st.Seq[number] || now.Arrived < st.Arrived[number]
}

// lostTransfer reports whether Redis has lost a transfer: one bucket has received more than the other one says that it
// gave.
//
// The buckets are not read at the same moment. So if a transfer seems to be lost, lostTransfer reads the givers again,
// after the receivers. It returns an error if one of those givers does not answer any more.
func lostTransfer(all []ledger.State, again func() []ledger.State) (bool, error) {
	if !receivedMore(all, all) {
		return false, nil
	}
	later := again()
	if receivedMore(later, all) {
		return true, nil
	}
	err := firstError(later)
	for i := range later {
		if later[i].Err != nil {
			later[i] = all[i]
		}
	}
	if receivedMore(later, all) {
		return false, err
	}
	return false, nil
}

func receivedMore(givers, receivers []ledger.State) bool {
	for to := range receivers {
		for from, n := range receivers[to].From {
			if from >= len(givers) {
				continue
			}
			if g := &givers[from]; g.Err == nil && g.Epoch == receivers[to].Epoch && g.To[to] < n {
				return true
			}
		}
	}
	return false
}
