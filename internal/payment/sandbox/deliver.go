package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// The pauses between the attempts to deliver an event double from the first to the longest.
	firstPause = 200 * time.Millisecond
	maxPauseOf = 30 * time.Second
	// giveUpAfter is the age of an event that is no longer delivered.
	giveUpAfter = 24 * time.Hour
	// deliveryTimeout bounds one attempt.
	deliveryTimeout = 15 * time.Second
	// maxDeliveries bounds the attempts that run at the same time.
	maxDeliveries = 32
	// scanEvery is the shortest time between two looks at what is due.
	scanEvery = 5 * time.Millisecond
)

// deliver makes the changes that have become due, and delivers events, until ctx ends.
func (s *Sandbox) deliver(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for ctx.Err() == nil {
		next, err := s.books.settleAll()
		if err != nil {
			return fmt.Errorf("the sandbox's file: %w", err)
		}
		due, nextEvent := s.books.takeDue(s.target() != "")
		for _, e := range due {
			running.Go(func() {
				accepted := s.attempt(ctx, e)
				if err := s.books.attempted(e, accepted); err != nil {
					s.cfg.Log.Error("sandbox: an event's delivery could not be noted; it will be delivered again", "error", err)
				}
			})
		}
		if next.IsZero() || !nextEvent.IsZero() && nextEvent.Before(next) {
			next = nextEvent
		}
		s.sleep(ctx, next)
	}
	return nil
}

// sleep waits until something has changed or, if next is not zero, until then.
func (s *Sandbox) sleep(ctx context.Context, next time.Time) {
	wait := time.Hour
	if !next.IsZero() {
		wait = max(scanEvery, time.Until(next))
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	case <-s.books.changed:
		time.Sleep(scanEvery) // more changes may follow, and one look finds them all
	}
}

// attempt delivers an event once and reports whether the receiver accepted it.
func (s *Sandbox) attempt(ctx context.Context, e event) bool {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.target(), bytes.NewReader(e.Body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	if err := s.webhooks.Sign(req.Header, e.ID, time.Now(), e.Body); err != nil {
		return false
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody)) // so that the connection is used again
	return resp.StatusCode/100 == 2
}

// takeDue returns the events to deliver now, and when the next one is due.
func (b *books) takeDue(possible bool) (due []event, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !possible {
		return nil, time.Time{}
	}
	now, running := b.now(), 0
	for _, e := range b.events {
		switch {
		case e.delivering:
			running++
		case !now.Before(e.Due):
			due = append(due, *e)
		case next.IsZero() || e.Due.Before(next):
			next = e.Due
		}
	}
	limit := maxDeliveries
	slices.SortFunc(due, func(x, y event) int { return x.Due.Compare(y.Due) })
	if b.behaviour.ReorderMS > 0 {
		limit = 1 // two at once would arrive in any order
		slices.SortFunc(due, func(x, y event) int { return y.Created.Compare(x.Created) })
	}
	due = due[:min(len(due), max(0, limit-running))] // the rest follows when a delivery ends, which is a change
	for _, e := range due {
		b.events[e.ID].delivering = true
	}
	return due, next
}

// attempted notes the result of an attempt.
func (b *books) attempted(e event, accepted bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	switch {
	case accepted && e.Repeat > 0:
		e.Repeat, e.Attempts, e.Due = e.Repeat-1, 0, now
	case accepted, now.Sub(e.Created) > giveUpAfter:
		e.Over = true
	default:
		e.Due = now.Add(min(maxPauseOf, firstPause<<min(e.Attempts, 16)))
		e.Attempts++
	}
	e.delivering = false
	return b.write(record{Event: &e})
}
