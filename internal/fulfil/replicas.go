package fulfil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"seckill/internal/admission/ledger"
)

// replicatedStreams hands out only entries that enough replicas have. Otherwise an order could be in the database and
// not in the replica that is promoted, whose bucket would sell the order's stock again: the processes that could have
// noticed may be dead, and other orders raise the bucket's seq to what the database knows.
type replicatedStreams struct {
	streamReader
	ledger *ledger.Ledger
	// oneServer: all streams are on the same server, so one of them speaks for all.
	oneServer bool
}

func (r *replicatedStreams) readNew(
	ctx context.Context, consumer string, streams []*stream, count int, block time.Duration, other <-chan struct{},
) ([]entry, error) {
	entries, err := r.streamReader.readNew(ctx, consumer, streams, count, block, other)
	kept, failed := r.replicated(ctx, entries)
	some, partly := errors.AsType[*readError](err)
	switch {
	case failed == nil:
		return kept, err
	case partly:
		failed.streams = append(failed.streams, some.streams...)
	case err != nil:
		return kept, err // of all streams
	}
	return kept, failed
}

func (r *replicatedStreams) readPending(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error) {
	entries, err := r.streamReader.readPending(ctx, consumer, s, after, count)
	return r.all(ctx, entries, err)
}

func (r *replicatedStreams) claimIdle(ctx context.Context, consumer string, s *stream, idle time.Duration, cursor string, count int) ([]entry, string, error) {
	entries, next, err := r.streamReader.claimIdle(ctx, consumer, s, idle, cursor, count)
	entries, err = r.all(ctx, entries, err)
	return entries, next, err
}

func (r *replicatedStreams) claimFrom(ctx context.Context, consumer, from string, s *stream, idle time.Duration, count int) ([]entry, error) {
	entries, err := r.streamReader.claimFrom(ctx, consumer, from, s, idle, count)
	return r.all(ctx, entries, err)
}

// all is replicated for entries of one stream, unless reading them failed.
func (r *replicatedStreams) all(ctx context.Context, entries []entry, err error) ([]entry, error) {
	if err != nil {
		return nil, err
	}
	kept, failed := r.replicated(ctx, entries)
	if failed != nil {
		return nil, failed
	}
	return kept, nil
}

// errOtherServer: the server that was asked is not the one that the entries were read from.
var errOtherServer = errors.New("a replica was promoted that does not have them")

// replicated waits until replicas have the entries, and returns those of the streams of which they have. The others
// stay pending at the consumer, which reads them again.
func (r *replicatedStreams) replicated(ctx context.Context, entries []entry) ([]entry, *readError) {
	parts := byStream(entries)
	errs := make([]error, len(parts))
	var asking sync.WaitGroup
	if r.oneServer {
		r.ask(ctx, parts, errs)
	} else {
		for i := range parts {
			asking.Go(func() { r.ask(ctx, parts[i:i+1], errs[i:i+1]) })
		}
	}
	asking.Wait()
	var kept []entry
	var failed *readError
	for i, part := range parts {
		if errs[i] == nil {
			kept = append(kept, part...)
			continue
		}
		if failed == nil {
			failed = &readError{err: fmt.Errorf("entries that replicas do not have yet: %w", errs[i])}
		}
		failed.streams = append(failed.streams, part[0].stream)
	}
	return kept, failed
}

// ask waits until replicas have the entries of some streams of one server, and sets the error of each stream.
func (r *replicatedStreams) ask(ctx context.Context, parts [][]entry, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var asked []int
	var read []ledger.LastRead
	for i, part := range parts {
		for _, e := range slices.Backward(part) {
			if !e.deleted { // of the others nothing is written
				asked, read = append(asked, i), append(read, ledger.LastRead{Keys: e.stream.keys, Entry: e.id})
				break
			}
		}
	}
	if len(read) == 0 {
		return
	}
	has, err := r.ledger.ReplicateAll(ctx, read)
	for n, i := range asked {
		switch {
		case err != nil:
			errs[i] = err
		case !has[n]:
			errs[i] = errOtherServer
		}
	}
}
