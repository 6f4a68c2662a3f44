package database

import (
	"context"
	"crypto/sha256"
	"reflect"
	"testing"
	"time"

	"seckill/internal/idempotency"
	"seckill/internal/testkit/fail"
)

var (
	noon  = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
	never = time.Unix(0, 0) // nothing is stale
	sumA  = idempotency.Fingerprint(sha256.Sum256([]byte("a")))
	sumB  = idempotency.Fingerprint(sha256.Sum256([]byte("b")))
)

func TestReserveAnswerReplay(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s, ctx := d.Idempotency(), t.Context()
		key := idempotency.Key{UserID: 42, Value: "k"}
		want := idempotency.Record{Fingerprint: sumA, ResourceID: 7, Attempt: 1, StartedAt: noon}

		got, mine, err := s.Begin(ctx, key, sumA, 7, noon, never)
		fail.NowIf(t, err)
		if !mine || !reflect.DeepEqual(got, want) {
			t.Fatalf("first: %+v, %v", got, mine)
		}
		got, mine, err = s.Begin(ctx, key, sumA, 8, noon.Add(time.Second), never)
		fail.NowIf(t, err)
		if mine || !reflect.DeepEqual(got, want) {
			t.Fatalf("while it runs: %+v, %v", got, mine)
		}

		answer := idempotency.Answer{Status: 201, ContentType: "application/json", Location: "/orders/7", Body: []byte("{\"a\":\"\x00ü\"}")}
		fail.NowIf(t, s.Complete(ctx, key, want, answer))
		fail.NowIf(t, s.Complete(ctx, key, want, idempotency.Answer{Status: 500})) // too late
		fail.NowIf(t, s.Cancel(ctx, key, want))                                    // no longer a mere reservation
		want.Answer = &answer
		got, mine, err = s.Begin(ctx, key, sumA, 9, noon.Add(time.Hour), noon.Add(time.Hour))
		fail.NowIf(t, err)
		if mine || !reflect.DeepEqual(got, want) {
			t.Fatalf("afterwards: %+v, %v", got, mine)
		}
	})
}

func TestKeysAreBytesAndBelongToTheirUser(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		for i, key := range []idempotency.Key{
			{UserID: 1, Value: "key"}, {UserID: 2, Value: "key"}, {UserID: 1, Value: "KEY"}, {UserID: 1, Value: "key "},
			{UserID: 1, Value: "\xff\xfe"}, {UserID: 1, Value: "é"}, {UserID: 1, Value: "e"}, {UserID: 0, Value: "' OR 1=1 -- \\"},
			{UserID: 1, Value: string(make([]byte, idempotency.MaxKey))},
		} {
			if _, mine, err := d.Idempotency().Begin(t.Context(), key, sumA, int64(i), noon, never); err != nil || !mine {
				t.Errorf("key %+v: %v, %v", key, mine, err)
			}
		}
	})
}

func TestTakeover(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s, ctx := d.Idempotency(), t.Context()
		key := idempotency.Key{UserID: 42, Value: "k"}
		first, _, err := s.Begin(ctx, key, sumA, 7, noon, never)
		fail.NowIf(t, err)
		var second idempotency.Record
		later := noon.Add(time.Minute)

		for _, step := range []struct {
			name        string
			fp          idempotency.Fingerprint
			staleBefore time.Time
			mine        bool
			attempt     int
			started     time.Time
		}{
			{"not stale yet", sumA, noon, false, 1, noon},
			{"stale, but another request", sumB, later, false, 1, noon},
			{"stale", sumA, noon.Add(time.Microsecond), true, 2, later},
			{"taken over just now", sumA, later, false, 2, later},
		} {
			got, mine, err := s.Begin(ctx, key, step.fp, 8, later, step.staleBefore)
			fail.NowIf(t, err)
			second = idempotency.Record{Fingerprint: sumA, ResourceID: 7, Attempt: step.attempt, StartedAt: step.started}
			if mine != step.mine || !reflect.DeepEqual(got, second) {
				t.Errorf("%s: %+v, %v", step.name, got, mine)
			}
		}

		// An attempt that was taken over cannot change the record any more.
		fail.NowIf(t, s.Cancel(ctx, key, first))
		fail.NowIf(t, s.Complete(ctx, key, first, idempotency.Answer{Status: 409}))
		got, mine, err := s.Begin(ctx, key, sumA, 8, later, never)
		fail.NowIf(t, err)
		if mine || !reflect.DeepEqual(got, second) {
			t.Errorf("after the late words of the first attempt: %+v, %v; want %+v", got, mine, second)
		}

		fail.NowIf(t, s.Cancel(ctx, key, second))
		got, mine, err = s.Begin(ctx, key, sumB, 8, later, never)
		fail.NowIf(t, err)
		if !mine || got.ResourceID != 8 {
			t.Errorf("after a cancel: %+v, %v", got, mine)
		}
		fail.NowIf(t, s.Cancel(ctx, key, idempotency.Record{ResourceID: 7, Attempt: 1})) // the same attempt of another reservation
		if _, mine, err := s.Begin(ctx, key, sumB, 9, later, never); mine || err != nil {
			t.Errorf("a new reservation fell to an old attempt: %v, %v", mine, err)
		}
	})
}

func TestTwentyBeginAtOnce(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		key := idempotency.Key{UserID: 42, Value: "k"}
		begin := func(now, staleBefore time.Time) (won int) {
			t.Helper()
			winners := make([]bool, 20)
			allAtOnce(t, 20, func(i int) error {
				record, mine, err := d.Idempotency().Begin(t.Context(), key, sumA, 7, now, staleBefore)
				if err == nil && record.ResourceID != 7 {
					t.Errorf("resource %d", record.ResourceID)
				}
				winners[i] = mine
				return err
			})
			for _, mine := range winners {
				if mine {
					won++
				}
			}
			return won
		}
		fail.Unequal(t, begin(noon, never), 1, "reserved the key")
		fail.Unequal(t, begin(noon.Add(time.Minute), noon.Add(time.Minute)), 1, "took the stale key over")
		// Concurrent reservations and cancellations do not make Begin fail.
		key.Value = "other"
		allAtOnce(t, 4, func(int) error {
			for range 25 {
				got, mine, err := d.Idempotency().Begin(t.Context(), key, sumA, 7, noon, never)
				if err == nil && mine {
					err = d.Idempotency().Cancel(t.Context(), key, got)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func TestSweepTheOldest(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		s, ctx := d.Idempotency(), t.Context()
		for i, offset := range []time.Duration{0, time.Microsecond, 100 * time.Millisecond, time.Second} {
			_, _, err := s.Begin(ctx, idempotency.Key{UserID: int64(i), Value: "k"}, sumA, 1, noon.Add(offset), never)
			fail.NowIf(t, err)
		}
		for _, want := range []int64{2, 1, 0} {
			got, err := s.Sweep(ctx, noon.Add(time.Second), 2)
			fail.NowIf(t, err)
			fail.Unequal(t, got, want, "swept")
		}
		_, mine, err := s.Begin(ctx, idempotency.Key{UserID: 3, Value: "k"}, sumA, 1, noon, never)
		fail.NowIf(t, err)
		if mine {
			t.Error("the youngest was swept too")
		}
		ended, end := context.WithCancel(ctx)
		end()
		_, mine, err = s.Begin(ended, idempotency.Key{UserID: 4, Value: "k"}, sumA, 1, noon, never)
		if fail.Unless(t, err, context.Canceled); mine {
			t.Error("reserved without having written")
		}
		fail.Unless(t, s.Cancel(ended, idempotency.Key{UserID: 3, Value: "k"}, idempotency.Record{ResourceID: 1, Attempt: 1}), context.Canceled)
	})
}
