package fulfil

import (
	"context"
	"slices"
	"time"
)

// replayPending processes the next page of the entries of each stream that were delivered to this worker and not
// finished. New entries of other streams are read between two pages: there are many while the database refuses a voucher.
func (w *worker) replayPending(stop, work context.Context) {
	for _, s := range w.availableStreams() {
		if w.streams[s].replay && stop.Err() == nil {
			w.process(work, w.replayPage(work, s, w.config.BatchSize))
		}
	}
}

// replayDue reports whether replayPending has something to do.
func (w *worker) replayDue() bool {
	return slices.ContainsFunc(w.availableStreams(), func(s *stream) bool { return w.streams[s].replay })
}

// replayPage reads the next pending entries that are replayed, with about so many orders. Those in the retry queue are
// left there.
func (w *worker) replayPage(ctx context.Context, s *stream, orders int) []entry {
	state := w.streams[s]
	entries, err := w.reader.readPending(ctx, w.name, s, state.replayAfter, state.perEntry.entriesFor(orders))
	switch {
	case err != nil:
		w.streamsFailed(ctx, err, s)
		return nil
	case len(entries) == 0:
		state.replay, state.failures = false, 0
	default:
		state.replayAfter = entries[len(entries)-1].id
		state.perEntry.add(entries)
	}
	return slices.DeleteFunc(entries, w.retries.has)
}

// recoverPending uses each new count of pending entries once. If Redis lists more entries under this worker's name than
// the worker knows of, the stream is replayed; between two rounds the worker knows only of its retry queue. A replay
// that is under way finds the rest. The claimer also claims the entries of dead processes.
func (w *worker) recoverPending(stop, work context.Context) {
	pending := w.liveness.pending.Load()
	if pending == nil || pending == w.recovered {
		return
	}
	w.recovered = pending
	for s, counts := range pending.counts {
		state := w.streams[s]
		if state == nil {
			continue
		}
		if !state.replay && counts[w.name] > w.retries.count(s) {
			state.replayAll()
		}
		if !w.claimer || state.retryAt.After(time.Now()) {
			continue
		}
		for consumer := range counts {
			if pending.dead[consumer] {
				w.claimFrom(stop, work, s, consumer)
			}
		}
	}
}

// claimFrom claims and processes the entries of a consumer whose process is dead.
func (w *worker) claimFrom(stop, work context.Context, s *stream, from string) {
	for state := w.streams[s]; stop.Err() == nil; {
		entries, err := w.reader.claimFrom(work, w.name, from, s, w.liveness.ttl(), state.perEntry.entriesFor(w.config.BatchSize))
		if err != nil {
			w.streamsFailed(work, err, s)
			return
		}
		if len(entries) == 0 {
			return
		}
		w.processClaimed(work, s, entries)
	}
}

func (w *worker) processClaimed(ctx context.Context, s *stream, entries []entry) {
	if len(entries) > 0 {
		w.streams[s].perEntry.add(entries)
		w.config.Observer.Claimed(len(entries))
		w.process(ctx, slices.DeleteFunc(entries, w.retries.has))
	}
}

// claimIdleEntries claims and processes the entries that have been pending for ClaimIdle at any consumer.
func (w *worker) claimIdleEntries(stop, work context.Context) {
	if !w.claimer || time.Now().Before(w.nextClaim) {
		return
	}
	w.nextClaim = time.Now().Add(w.config.ClaimEvery)
	for _, s := range w.availableStreams() {
		// One call examines a limited number of entries, so an empty reply is not the end.
		state := w.streams[s]
		for cursor := claimStart; stop.Err() == nil; {
			entries, next, err := w.reader.claimIdle(work, w.name, s, w.config.ClaimIdle, cursor, state.perEntry.entriesFor(w.config.BatchSize))
			if err != nil {
				w.streamsFailed(work, err, s)
				break
			}
			w.processClaimed(work, s, entries)
			if next == claimStart {
				break
			}
			cursor = next
		}
		if err := w.removeIdleConsumers(work, s); err != nil {
			w.streamsFailed(work, err, s)
		}
	}
}

// claimStart is the first cursor of XAUTOCLAIM, and the one that it returns at the end.
const claimStart = "0-0"

// idleConsumerFactor times ClaimIdle is how long a consumer without pending entries must be idle before it is removed
// from its group. If it is alive after all, its next read adds it again.
const idleConsumerFactor = 20

func (w *worker) removeIdleConsumers(ctx context.Context, s *stream) error {
	names, err := w.reader.idleConsumers(ctx, s, idleConsumerFactor*w.config.ClaimIdle)
	if err != nil {
		return err
	}
	for _, name := range names {
		if processOf(name) != w.config.Name {
			if err := w.reader.removeConsumer(ctx, name, s); err != nil {
				return err
			}
		}
	}
	return nil
}
