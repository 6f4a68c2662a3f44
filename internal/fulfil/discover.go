package fulfil

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/contract"
)

// discovery finds out from the database which vouchers are sold by admission, and from Redis which of their streams
// have entries.
type discovery struct {
	config  *Config
	reader  streamReader
	streams *watchList

	// onSale are the vouchers that the database listed last, and nextList is when it is asked again. mu guards them, and
	// is held by discover.
	mu       sync.Mutex
	onSale   map[int64]bool
	nextList time.Time
	// complete: a full discovery has succeeded, so every stream that has entries is watched, or will be in its turn.
	complete atomic.Bool
	// listed: the vouchers of earlier times were read from the database.
	listed atomic.Bool
}

// fullDiscoverEvery is after how many discoveries a full one follows. It includes the vouchers whose sale ended long ago:
// without it nobody would notice entries in their streams. After a start every discovery is a full one until one succeeds.
const fullDiscoverEvery = 600

// run discovers every DiscoverEvery until ctx ends.
func (d *discovery) run(ctx context.Context) {
	n, generation := 0, d.config.generation()
	every(ctx, d.config.DiscoverEvery, func() {
		if now := d.config.generation(); now != generation { // the marks of vouchers whose keys were removed are gone
			generation = now
			d.complete.Store(false)
		}
		n++
		d.discover(ctx, n%fullDiscoverEvery == 0 || !d.complete.Load())
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
func (d *discovery) discover(ctx context.Context, full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	added, listed := d.list(ctx, full)
	lengths, oldest, err := d.reader.backlog(ctx, d.streams.looks(added))
	for s := range lengths {
		s.looked = true
	}
	if err != nil {
		d.config.warn(ctx, "cannot read the lengths of the streams", err)
	} else {
		d.config.Observer.Backlog(sum(lengths), oldest)
	}
	failed := d.streams.watchFilled(ctx, lengths)
	if failed != nil {
		d.config.warn(ctx, "cannot read streams that have entries", failed)
	}
	if full && listed && err == nil && failed == nil {
		d.complete.Store(true)
	}
	d.streams.rest(lengths, d.ended(ctx, lengths))
}

func sum(lengths map[*stream]int64) (entries int64) {
	for _, n := range lengths {
		entries += n
	}
	return entries
}

// listShare bounds what lists of vouchers cost: the next one follows after so many times what the database took for one.
const listShare = 50

// list reads the vouchers from the database and returns their streams that were never looked at. It reports whether
// those of the vouchers of earlier times are among them.
func (d *discovery) list(ctx context.Context, full bool) (added []*stream, listed bool) {
	begun := time.Now()
	if !full && begun.Before(d.nextList) {
		return nil, false
	}
	vouchers, err := d.config.Store.AdmissionVouchers(ctx, begun.Add(-d.config.RetainFor))
	if err != nil {
		d.config.warn(ctx, "cannot list the vouchers on sale", err)
		return nil, false
	}
	d.nextList = begun.Add(listShare * time.Since(begun))
	if full {
		ended, err := d.endedWithEntries(ctx)
		if err != nil {
			d.config.warn(ctx, "cannot look for entries of vouchers whose sale has ended", err)
		}
		listed = err == nil
		vouchers = append(vouchers, ended...)
	}
	d.onSale = make(map[int64]bool, len(vouchers))
	for _, v := range vouchers {
		d.onSale[v.VoucherID] = true
		for bucket := range v.Buckets {
			if s := d.streams.stream(streamID{v.VoucherID, bucket}); !s.looked {
				added = append(added, s)
			}
		}
	}
	if listed {
		d.listed.Store(true)
	}
	return added, listed
}

// ended returns the vouchers with empty streams that the database does not list any more, and still has. One that it
// does not have was lost in the database, not in Redis, and may be sold on: its streams are read until the database has
// it again.
func (d *discovery) ended(ctx context.Context, lengths map[*stream]int64) map[int64]bool {
	ended := map[int64]bool{}
	for s, n := range lengths {
		if _, asked := ended[s.voucher]; n > 0 || asked || d.onSale[s.voucher] {
			continue
		}
		_, err := d.config.Store.EpochState(ctx, s.voucher)
		ended[s.voucher] = err == nil
	}
	return ended
}

// discoverPage is the number of vouchers per query.
const discoverPage = 1000

// endedWithEntries lists the vouchers whose sale has ended and whose streams are not empty, or could not be looked at.
// Vouchers whose keys were removed from Redis are not included. Its error is one of the database, and some may be
// missing then.
func (d *discovery) endedWithEntries(ctx context.Context) (ended []contract.AdmissionVoucher, err error) {
	for after := int64(0); ; {
		vouchers, err := d.config.Store.UnclearedVouchers(ctx, time.Now(), after, discoverPage)
		if err != nil {
			return ended, err
		}
		var all []*stream
		of := map[int64][]*stream{}
		for _, v := range vouchers {
			after, of[v.VoucherID] = v.VoucherID, streamsOf(d.config.Prefix, v)
			all = append(all, of[v.VoucherID]...)
		}
		lengths, _, err := d.reader.backlog(ctx, all)
		if err != nil {
			d.config.warn(ctx, "cannot read the lengths of the streams of vouchers whose sale has ended", err)
		}
		mayHaveEntries := func(s *stream) bool { n, counted := lengths[s]; return n > 0 || !counted }
		for _, v := range vouchers {
			if slices.ContainsFunc(of[v.VoucherID], mayHaveEntries) {
				ended = append(ended, v)
			}
		}
		if len(vouchers) < discoverPage {
			return ended, nil
		}
	}
}
