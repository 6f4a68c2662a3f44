package testbed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// store is a lock store that changes with time.
type store struct {
	began time.Time
	takes time.Duration // until it answers
	// at returns what it holds for a key at that time since the beginning.
	at   func(key string, d time.Duration) (lock.State, error)
	asks atomic.Int32
	most atomic.Int32
}

func (s *store) Inspect(ctx context.Context, key string) (lock.State, error) {
	s.most.Store(max(s.most.Load(), s.asks.Add(1)))
	defer s.asks.Add(-1)
	if s.takes > 0 { // timers of zero that run at the same time in one bubble crash the race detector (Go 1.26)
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return lock.State{}, ctx.Err()
		}
	}
	return s.at(key, time.Since(s.began))
}

// observed lets that much time pass and returns the samples of keys.
func observed(t *testing.T, s *store, d time.Duration, keys ...string) (samples []judge.Sample) {
	t.Helper()
	e := &Environment{limit: experimentLimit, options: Options{Log: slog.New(slog.DiscardHandler), Progress: func(i18n.Text) {}}}
	s.began = time.Now()
	fail.NowIf(t, fail.Of(e.WithRig(t.Context(), "observed", nil, func(stage *Rig) {
		o := stage.Observe(s, keys...)
		stage.Sleep(d)
		samples = o.Samples()
	})))
	fail.Unequal(t, s.most.Load(), 1, "questions at once")
	return samples
}

func TestObserverSeesHoldersThatHoldFor5ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: time.Millisecond, at: func(_ string, d time.Duration) (lock.State, error) {
			return lock.State{Owner: lock.Owner(fmt.Sprint(int(d / (5 * time.Millisecond)))), TTL: lock.NoExpiry}, nil
		}}
		seen := observed(t, s, 498*time.Millisecond, "k")
		if len(seen) < 100 || len(seen) > 101 {
			t.Fatalf("saw %d of 100 holders", len(seen))
		}
		for i, x := range seen {
			late := time.Duration(x.At-s.began.UnixNano()) - time.Duration(i)*5*time.Millisecond
			if x.Stored.Owner != fmt.Sprint(i) || late < 0 || late > 3*time.Millisecond {
				t.Errorf("sample %d: %+v, %v late", i, x, late)
			}
		}
	})
}

func TestObserverKeepsChangesOnly(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		// "renewed" has 100 ms, and at 50 ms another 100 ms; "runs out" has none after 100 ms; "fails" cannot be asked
		// from 50 to 60 ms.
		s := &store{at: func(key string, d time.Duration) (lock.State, error) {
			held := lock.State{Owner: "a", TTL: 100*ms - d}
			switch {
			case key == "renewed" && d >= 50*ms:
				held.TTL = 200*ms - d
			case key == "fails" && d >= 50*ms && d < 60*ms:
				return lock.State{}, fmt.Errorf("%w for %v", down, d)
			case held.TTL <= 0:
				return lock.State{}, nil
			}
			return held, nil
		}}
		seen := map[string][]judge.Sample{}
		for _, x := range observed(t, s, 120*ms, "renewed", "runs out", "fails") {
			seen[x.Key] = append(seen[x.Key], x)
		}
		if x := seen["renewed"]; len(x) != 2 || *x[1].Stored.TTLMS < 148 {
			t.Errorf("renewed: %+v", x)
		}
		if x := seen["runs out"]; len(x) != 2 || x[0].Stored.TTLMS == nil || x[1].Stored.Owner != "" || x[1].Stored.TTLMS != nil {
			t.Errorf("runs out: %+v", x)
		}
		if x := seen["fails"]; len(x) != 4 || x[1].Err == "" || x[2].Err != "" || x[2].Stored.Owner != "a" {
			t.Errorf("fails: %+v", x)
		}
	})
}

// An answer that took long says nothing about when the lock expires: it is no renewal.
func TestLateAnswerIsNoRenewal(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		delayed := false
		s := &store{at: func(_ string, d time.Duration) (lock.State, error) {
			held := lock.State{Owner: "a", TTL: 500*ms - d}
			if d >= 50*ms && !delayed {
				delayed = true
				<-time.After(60 * ms)
			}
			return held, nil
		}}
		if seen := observed(t, s, 200*ms, "k"); len(seen) != 1 {
			t.Errorf("saw %+v", seen)
		}
	})
}

func TestObserverOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{takes: time.Hour}
		if seen := observed(t, s, time.Second, "k"); len(seen) != 1 || seen[0].Err == "" {
			t.Errorf("saw %+v", seen)
		}
	})
}

func TestObserverOfWhatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{at: func(string, time.Duration) (lock.State, error) { return lock.State{}, errors.ErrUnsupported }}
		if seen := observed(t, s, time.Second, "k"); len(seen) != 0 {
			t.Errorf("saw %+v", seen)
		}
	})
}
