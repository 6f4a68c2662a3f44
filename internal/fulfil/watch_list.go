package fulfil

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// watchList has all streams that may get entries, and says which of them the workers read. It is safe for use by
// several goroutines.
//
// Most vouchers on sale have no buyers at the moment, and their streams are empty. To read them, to count what is
// pending in them and to measure their lengths costs Redis some commands a second for each, so only the streams that
// may have entries are watched. The others rest, and cost nothing but a look now and then:
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
type watchList struct {
	prefix string
	reader streamReader

	mu  sync.Mutex
	all map[streamID]*stream
	// ring has the same in the order in which those that rest are looked at, and next is whose turn it is.
	ring []*stream
	next int
	// list are the watched streams. The slice is replaced as a whole, under mu; then changed is closed and replaced.
	list    atomic.Pointer[[]*stream]
	changed atomic.Pointer[chan struct{}]
	// woken are the resting streams that the gate has woken and whose groups may be missing.
	woken chan *stream
}

const (
	// awakeFor is how long a stream is watched at least after it was woken. A gate that goes on sending orders wakes it
	// again before that.
	awakeFor = 3 * time.Second
	// restingLooks is how many of the streams that rest one discovery looks at.
	restingLooks = 500
	// maxWoken is how many woken streams wait for their groups at most. Others are found when their turn comes.
	maxWoken = 1000
)

func newWatchList(prefix string, r streamReader) *watchList {
	l := &watchList{prefix: prefix, reader: r, all: map[streamID]*stream{}, woken: make(chan *stream, maxWoken)}
	l.setWatched(nil)
	return l
}

// wake watches a stream, because the gate is about to add an entry to it. It does not wait for anything.
func (l *watchList) wake(id streamID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.know(id)
	s.awakeUntil = time.Now().Add(awakeFor)
	switch {
	case s.watched:
	case s.grouped:
		l.watch(s)
	default:
		select {
		case l.woken <- s:
		default:
		}
	}
}

// watchWoken watches the streams that the gate has woken and whose groups may be missing, until ctx ends.
func (l *watchList) watchWoken(ctx context.Context, warn func(ctx context.Context, what string, err error)) {
	for {
		select {
		case s := <-l.woken:
			if err := l.watchStream(ctx, s); err != nil {
				warn(ctx, "cannot read the stream of a voucher yet", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// stream returns a stream, which is known from then on.
func (l *watchList) stream(id streamID) *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.know(id)
}

// know is stream with l.mu held.
func (l *watchList) know(id streamID) *stream {
	s := l.all[id]
	if s == nil {
		s = newStream(l.prefix, id.voucher, id.bucket)
		l.all[id] = s
		l.ring = append(l.ring, s)
	}
	return s
}

// known lists all streams.
func (l *watchList) known() []*stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.all))
}

// watched lists the streams to read.
func (l *watchList) watched() []*stream { return *l.list.Load() }

// watchStream watches a stream after it has made sure of its group. One that Redis does not have yet is left to rest.
func (l *watchList) watchStream(ctx context.Context, s *stream) error {
	l.mu.Lock()
	grouped := s.grouped
	l.mu.Unlock()
	if !grouped {
		switch err := l.reader.ensureGroup(ctx, s); {
		case errors.Is(err, errNoVoucher):
			return nil
		case err != nil:
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.grouped = true
	s.awakeUntil = time.Now().Add(awakeFor)
	if !s.watched && l.all[s.id()] == s {
		l.watch(s)
	}
	return nil
}

// watchFilled watches those of some streams that have entries.
func (l *watchList) watchFilled(ctx context.Context, lengths map[*stream]int64) (failed error) {
	n := 0
	for s, entries := range lengths {
		if entries == 0 {
			continue
		}
		if err := l.watchStream(ctx, s); err != nil {
			n++
			failed = err
		}
	}
	if failed != nil {
		return fmt.Errorf("%d streams: %w", n, failed)
	}
	return nil
}

// watch adds a stream to those that are watched. l.mu is held.
func (l *watchList) watch(s *stream) {
	s.watched = true
	l.setWatched(append(slices.Clone(l.watched()), s))
}

// setWatched replaces the list of watched streams, and then tells the workers that wait. l.mu is held.
func (l *watchList) setWatched(list []*stream) {
	l.list.Store(&list)
	next := make(chan struct{})
	if before := l.changed.Swap(&next); before != nil {
		close(*before)
	}
}

// looks returns the streams to look at: those that are watched, those that were added, and some of those that rest.
func (l *watchList) looks(added []*stream) []*stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := slices.Clone(l.watched())
	for _, s := range added {
		if !s.watched {
			due = append(due, s)
		}
	}
	most := len(due) + restingLooks
	for seen := 0; seen < len(l.ring) && len(due) < most; seen++ {
		l.next = (l.next + 1) % len(l.ring)
		if s := l.ring[l.next]; !s.watched && s.looked {
			due = append(due, s)
		}
	}
	return due
}

// rest has streams rest that are empty and were not woken lately, and forgets those of ended vouchers.
func (l *watchList) rest(lengths map[*stream]int64, ended map[int64]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, resting, gone := time.Now(), false, map[*stream]bool{}
	for s, n := range lengths {
		if n > 0 || now.Before(s.awakeUntil) {
			continue
		}
		resting = resting || s.watched
		s.watched = false
		if ended[s.voucher] {
			gone[s] = true
			delete(l.all, s.id())
		}
	}
	if resting {
		l.setWatched(slices.DeleteFunc(slices.Clone(l.watched()), func(s *stream) bool { return !s.watched }))
	}
	if len(gone) > 0 {
		l.ring = slices.DeleteFunc(l.ring, func(s *stream) bool { return gone[s] })
		l.next = 0
	}
}
