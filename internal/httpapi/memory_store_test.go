package httpapi_test

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/idempotency"
)

// memoryStore is an idempotency store in memory.
type memoryStore struct {
	mu          sync.Mutex
	records     map[idempotency.Key]*idempotency.Record
	begin       error // of Begin
	finds       atomic.Int64
	complete    error  // of Complete
	beforeStore func() // runs before Complete and Cancel
}

func (s *memoryStore) Begin(_ context.Context, key idempotency.Key, fp idempotency.Fingerprint, resourceID int64, now, staleBefore time.Time) (idempotency.Record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begin != nil {
		return idempotency.Record{}, false, s.begin
	}
	rec := s.records[key]
	switch {
	case rec == nil:
		if s.records == nil {
			s.records = make(map[idempotency.Key]*idempotency.Record)
		}
		rec = &idempotency.Record{Fingerprint: fp, ResourceID: resourceID, Attempt: 1, StartedAt: now}
		s.records[key] = rec
		return *rec, true, nil
	case rec.Answer == nil && rec.Fingerprint == fp && rec.StartedAt.Before(staleBefore):
		rec.StartedAt = now
		rec.Attempt++
		return *rec, true, nil
	}
	return *rec, false, nil
}

func (s *memoryStore) Find(_ context.Context, key idempotency.Key) (idempotency.Record, bool, error) {
	s.finds.Add(1)
	rec, known := s.record(key)
	return rec, known, nil
}

func (s *memoryStore) Complete(ctx context.Context, key idempotency.Key, mine idempotency.Record, a idempotency.Answer) error {
	if s.beforeStore != nil {
		s.beforeStore()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(s.complete, ctx.Err()); err != nil {
		return err
	}
	if rec := s.held(key, mine); rec != nil {
		rec.Answer = &a
	}
	return nil
}

func (s *memoryStore) Cancel(ctx context.Context, key idempotency.Key, mine idempotency.Record) error {
	if s.beforeStore != nil {
		s.beforeStore()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.held(key, mine) != nil {
		delete(s.records, key)
	}
	return nil
}

// held returns the reservation if it still belongs to that attempt.
func (s *memoryStore) held(key idempotency.Key, mine idempotency.Record) *idempotency.Record {
	rec := s.records[key]
	if rec == nil || rec.Answer != nil || rec.ResourceID != mine.ResourceID || rec.Attempt != mine.Attempt {
		return nil
	}
	return rec
}

func (s *memoryStore) record(key idempotency.Key) (idempotency.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[key]
	if rec == nil {
		return idempotency.Record{}, false
	}
	return *rec, true
}
