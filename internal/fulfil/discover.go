package fulfil

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"seckill/internal/order"
)

// fullDiscoverEvery is after how many discoveries a full one follows. It includes the
// vouchers whose sale ended long ago: without it nobody would notice entries in their
// streams. After a start every discovery is a full one until one succeeds.
const fullDiscoverEvery = 600

func (f *Fulfiller) discoverPeriodically(ctx context.Context) {
	n := 0
	every(ctx, f.config.DiscoverEvery, func() {
		n++
		f.discover(ctx, n%fullDiscoverEvery == 0 || !f.complete.Load())
	})
}

// every calls fn once per interval until ctx ends.
func every(ctx context.Context, interval time.Duration, fn func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fn()
		}
	}
}

// discover updates the watched streams: those of the vouchers on sale, and those that
// still have entries. A full discovery includes the vouchers whose sale ended long ago.
func (f *Fulfiller) discover(ctx context.Context, full bool) {
	lengths, oldest, err := f.reader.backlog(ctx, *f.watched.Load())
	if err != nil {
		f.warn(ctx, "cannot read the lengths of the streams", err)
	} else {
		var entries int64
		for _, n := range lengths {
			entries += n
		}
		f.config.Observer.backlog(entries, oldest)
	}

	vouchers, err := f.config.Store.AdmissionVouchers(ctx, time.Now().Add(-f.config.RetainFor))
	if err != nil {
		f.warn(ctx, "cannot list the vouchers on sale", err)
		return
	}
	listed := full
	if full {
		ended, err := f.endedWithEntries(ctx)
		if err != nil {
			listed = false
			f.warn(ctx, "cannot look for entries of vouchers whose sale has ended", err)
		}
		vouchers = append(vouchers, ended...)
	}
	wanted := make(map[int64]bool, len(vouchers))
	var unwatched []order.AdmissionVoucher
	var failed error
	for _, v := range vouchers {
		wanted[v.VoucherID] = true
		if err := f.Watch(ctx, v); err != nil {
			unwatched, failed = append(unwatched, v), cmp.Or(failed, err)
		}
	}
	if failed != nil {
		f.warn(ctx, fmt.Sprintf("cannot read the streams of %d vouchers", len(unwatched)), failed)
	}
	if listed || f.complete.Load() { // those of a list that is not complete do not replace the others
		f.unwatched.Store(&unwatched)
	}
	if listed {
		f.listed.Store(true)
	}
	if listed && failed == nil {
		f.complete.Store(true)
	}
	ended := f.endedVouchers(ctx, lengths, wanted)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setWatched(slices.DeleteFunc(slices.Clone(*f.watched.Load()), func(s *stream) bool {
		n, counted := lengths[s]
		over := counted && n == 0 && ended[s.voucher]
		if over {
			delete(f.watchedIDs, s.id())
		}
		return over
	}))
}

// endedVouchers returns the vouchers with empty streams that the database does not list as wanted any more, and still has.
// One that it does not have was lost in the database, not in Redis, and may be sold on: its streams are read until the
// database has it again.
func (f *Fulfiller) endedVouchers(ctx context.Context, lengths map[*stream]int64, wanted map[int64]bool) map[int64]bool {
	ended := map[int64]bool{}
	for s, n := range lengths {
		if _, asked := ended[s.voucher]; n > 0 || asked || wanted[s.voucher] {
			continue
		}
		_, err := f.config.Store.EpochState(ctx, s.voucher)
		ended[s.voucher] = err == nil
	}
	return ended
}

// discoverPage is the number of vouchers per query.
const discoverPage = 1000

// endedWithEntries lists the vouchers whose sale has ended and whose streams are not empty, or could not be looked at.
// Vouchers whose keys were removed from Redis are not included. Its error is one of the database, and some may be missing
// then.
func (f *Fulfiller) endedWithEntries(ctx context.Context) (ended []order.AdmissionVoucher, err error) {
	for after := int64(0); ; {
		vouchers, err := f.config.Store.UnclearedVouchers(ctx, time.Now(), after, discoverPage)
		if err != nil {
			return ended, err
		}
		var streams []*stream
		for _, v := range vouchers {
			after = v.VoucherID
			streams = append(streams, streamsOf(f.config.Prefix, v)...)
		}
		lengths, _, err := f.reader.backlog(ctx, streams)
		if err != nil {
			f.warn(ctx, "cannot read the lengths of the streams of vouchers whose sale has ended", err)
		}
		mayHaveEntries := make(map[int64]bool)
		for _, s := range streams {
			if n, counted := lengths[s]; n > 0 || !counted {
				mayHaveEntries[s.voucher] = true
			}
		}
		for _, v := range vouchers {
			if mayHaveEntries[v.VoucherID] {
				ended = append(ended, v)
			}
		}
		if len(vouchers) < discoverPage {
			return ended, nil
		}
	}
}
