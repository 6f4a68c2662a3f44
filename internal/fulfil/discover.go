package fulfil

import (
	"context"
	"time"

	"seckill/internal/admission/contract"
)

// fullDiscoverEvery is after how many discoveries a full one follows. It includes the
// vouchers whose sale ended long ago: without it nobody would notice entries in their
// streams. After a start every discovery is a full one until one succeeds.
const fullDiscoverEvery = 600

func (f *Fulfiller) discoverPeriodically(ctx context.Context) {
	n, generation := 0, f.config.generation()
	every(ctx, f.config.DiscoverEvery, func() {
		if now := f.config.generation(); now != generation { // the marks of vouchers whose keys were removed are gone
			generation = now
			f.complete.Store(false)
		}
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

// discover updates the known streams from the database, and finds out which of them have entries. A full discovery
// includes the vouchers whose sale ended long ago.
func (f *Fulfiller) discover(ctx context.Context, full bool) {
	f.discovering.Lock()
	defer f.discovering.Unlock()
	added, listed := f.list(ctx, full)
	lengths, oldest, err := f.reader.backlog(ctx, f.looks(added))
	for s := range lengths {
		s.looked = true
	}
	if err != nil {
		f.warn(ctx, "cannot read the lengths of the streams", err)
	} else {
		var entries int64
		for _, n := range lengths {
			entries += n
		}
		f.config.Observer.backlog(entries, oldest)
	}
	failed := f.watchFilled(ctx, lengths)
	if failed != nil {
		f.warn(ctx, "cannot read streams that have entries", failed)
	}
	if full && listed && err == nil && failed == nil {
		f.complete.Store(true)
	}
	f.rest(lengths, f.endedVouchers(ctx, lengths, f.onSale))
}

// listShare bounds what lists of vouchers cost: the next one follows after so many times what the database took for one.
const listShare = 50

// list reads the vouchers from the database and returns their streams that were never looked at. It reports whether those
// of the vouchers of earlier times are among them.
func (f *Fulfiller) list(ctx context.Context, full bool) (added []*stream, listed bool) {
	begun := time.Now()
	if !full && begun.Before(f.nextList) {
		return nil, false
	}
	vouchers, err := f.config.Store.AdmissionVouchers(ctx, begun.Add(-f.config.RetainFor))
	if err != nil {
		f.warn(ctx, "cannot list the vouchers on sale", err)
		return nil, false
	}
	f.nextList = begun.Add(listShare * time.Since(begun))
	if full {
		ended, err := f.endedWithEntries(ctx)
		if err != nil {
			f.warn(ctx, "cannot look for entries of vouchers whose sale has ended", err)
		}
		listed = err == nil
		vouchers = append(vouchers, ended...)
	}
	f.onSale = make(map[int64]bool, len(vouchers))
	for _, v := range vouchers {
		f.onSale[v.VoucherID] = true
		for bucket := range v.Buckets {
			if s := f.stream(streamID{v.VoucherID, bucket}); !s.looked {
				added = append(added, s)
			}
		}
	}
	if listed {
		f.listed.Store(true)
	}
	return added, listed
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
func (f *Fulfiller) endedWithEntries(ctx context.Context) (ended []contract.AdmissionVoucher, err error) {
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
