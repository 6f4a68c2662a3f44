package fulfil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Most vouchers on sale have no buyers at the moment, and their streams are empty. To read them, to count what is pending
// in them and to measure their lengths costs Redis some commands a second for each, so only the streams that may have
// entries are watched. The others rest, and cost nothing but a look now and then:
//
//	a stream is watched            because
//	at the start                   it has entries
//	before its gate sends orders   this process's gate wakes it ([Fulfiller.Wake]); so an order of a voucher that nobody
//	                               bought before is written as soon as one of a voucher that sells, or up to
//	                               longestBlock later while others sell
//	when its turn comes            it has entries. Then another process accepted them and did not write them: it died,
//	                               or its workers cannot reach the database. restingLooks of the streams that rest are
//	                               looked at in each discovery: with the defaults all of them within a second up to 500,
//	                               and 10,000 within 20 s. This costs one command for each look, however many there are
//
// A watched stream rests once it was empty at a discovery, and was not woken for awakeFor. An entry that is pending at
// any worker is in its stream, so a stream that rests has none.

const (
	// awakeFor is how long a stream is watched at least after it was woken. A gate that goes on sending orders wakes it
	// again before that.
	awakeFor = 3 * time.Second
	// restingLooks is how many of the streams that rest one discovery looks at.
	restingLooks = 500
	// maxToWatch is how many woken streams wait for their groups at most. Others are found when their turn comes.
	maxToWatch = 1000
)

// Wake has the workers read a stream, because the gate is about to add an entry to it. It does not wait for anything.
func (f *Fulfiller) Wake(voucherID int64, bucket int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.know(streamID{voucherID, bucket})
	s.awakeUntil = time.Now().Add(awakeFor)
	switch {
	case s.watched:
	case s.grouped:
		f.watch(s)
	default:
		select {
		case f.toWatch <- s:
		default:
		}
	}
}

// watchWoken watches the streams that the gate has woken and whose groups may be missing, until ctx ends.
func (f *Fulfiller) watchWoken(ctx context.Context) {
	for {
		select {
		case s := <-f.toWatch:
			if err := f.watchStream(ctx, s); err != nil {
				f.warn(ctx, "cannot read the stream of a voucher yet", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// stream returns a stream, which is known from then on.
func (f *Fulfiller) stream(id streamID) *stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.know(id)
}

// know is stream with f.mu held.
func (f *Fulfiller) know(id streamID) *stream {
	s := f.all[id]
	if s == nil {
		s = newStream(f.config.Prefix, id.voucher, id.bucket)
		f.all[id] = s
		f.ring = append(f.ring, s)
	}
	return s
}

// watchStream watches a stream after it has made sure of its group. One that Redis does not have yet is left to rest.
func (f *Fulfiller) watchStream(ctx context.Context, s *stream) error {
	f.mu.Lock()
	grouped := s.grouped
	f.mu.Unlock()
	if !grouped {
		switch err := f.reader.ensureGroup(ctx, s); {
		case errors.Is(err, errNoVoucher):
			return nil
		case err != nil:
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.grouped = true
	s.awakeUntil = time.Now().Add(awakeFor)
	if !s.watched && f.all[s.id()] == s {
		f.watch(s)
	}
	return nil
}

// watch adds a stream to those that are watched. f.mu is held.
func (f *Fulfiller) watch(s *stream) {
	s.watched = true
	f.setWatched(append(slices.Clone(*f.watched.Load()), s))
}

// setWatched replaces the list of watched streams, and then tells the workers that wait. f.mu is held.
func (f *Fulfiller) setWatched(all []*stream) {
	f.watched.Store(&all)
	next := make(chan struct{})
	if before := f.changed.Swap(&next); before != nil {
		close(*before)
	}
}

// looks returns the streams to look at: those that are watched, those that were added, and some of those that rest.
func (f *Fulfiller) looks(added []*stream) []*stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := slices.Clone(*f.watched.Load())
	for _, s := range added {
		if !s.watched {
			due = append(due, s)
		}
	}
	most := len(due) + restingLooks
	for seen := 0; seen < len(f.ring) && len(due) < most; seen++ {
		f.next = (f.next + 1) % len(f.ring)
		if s := f.ring[f.next]; !s.watched && s.looked {
			due = append(due, s)
		}
	}
	return due
}

// rest has streams rest that are empty and were not woken lately, and forgets those of ended vouchers.
func (f *Fulfiller) rest(lengths map[*stream]int64, ended map[int64]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, resting, gone := time.Now(), false, map[*stream]bool{}
	for s, n := range lengths {
		if n > 0 || now.Before(s.awakeUntil) {
			continue
		}
		resting = resting || s.watched
		s.watched = false
		if ended[s.voucher] {
			gone[s] = true
			delete(f.all, s.id())
		}
	}
	if resting {
		f.setWatched(slices.DeleteFunc(slices.Clone(*f.watched.Load()), func(s *stream) bool { return !s.watched }))
	}
	if len(gone) > 0 {
		f.ring = slices.DeleteFunc(f.ring, func(s *stream) bool { return gone[s] })
		f.next = 0
	}
}

// watchFilled watches those of some streams that have entries.
func (f *Fulfiller) watchFilled(ctx context.Context, lengths map[*stream]int64) (failed error) {
	n := 0
	for s, entries := range lengths {
		if entries == 0 {
			continue
		}
		if err := f.watchStream(ctx, s); err != nil {
			n++
			failed = err
		}
	}
	if failed != nil {
		return fmt.Errorf("%d streams: %w", n, failed)
	}
	return nil
}
