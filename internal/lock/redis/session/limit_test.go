package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A wait limit ends as a context with the same deadline does, whether or not anybody waited for it before.
func TestWaitLimitEnds(t *testing.T) {
	for name, watch := range map[string]func(context.Context){
		"asked at the end": func(context.Context) {},
		"waited for":       func(ctx context.Context) { _ = ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const second = time.Second
				parent, cancel := context.WithTimeout(t.Context(), 3*second)
				defer cancel()
				early := newWaitLimit(parent, time.Now().Add(2*second))
				defer early.stop()
				late := newWaitLimit(parent, time.Now().Add(4*second))
				defer late.stop()
				watch(early)
				watch(late)
				if d, ok := late.Deadline(); !ok || time.Until(d) != 3*second {
					t.Errorf("the limit ends in %v, want 3s, with its parent", time.Until(d))
				}
				simulate.Sleep(2*second - 1)
				if early.Err() != nil || late.Err() != nil {
					t.Fatal("a limit ended early")
				}
				simulate.Sleep(time.Nanosecond)
				synctest.Wait()
				fail.Unless(t, early.Err(), context.DeadlineExceeded, "the error at the deadline")
				<-early.Done()
				fail.Unequal(t, late.Err(), nil, "the later limit")
				cancel()
				fail.Unless(t, late.Err(), context.Canceled, "the error after the parent's end")
				<-late.Done()
			})
		})
	}
}

// Where the parent ends first, it has ended when the limit has: a caller that finds the limit at its end tells the two
// apart by the parent's error.
func TestWaitLimitEndsAfterItsParent(t *testing.T) {
	for range 1000 {
		parent, cancel := context.WithTimeout(t.Context(), 50*time.Microsecond)
		limit := newWaitLimit(parent, time.Now().Add(time.Minute))
		<-limit.Done()
		if parent.Err() == nil {
			t.Fatal("the limit ended before its parent")
		}
		limit.stop()
		cancel()
	}
}

// The limit of a direct command ends at its own deadline, however many came before it.
func TestDirectLimitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newDirectLimit(t.Context())
		for range 3 {
			l.start(time.Now().Add(time.Second))
			simulate.Sleep(time.Second - 1)
			if l.Err() != nil || !l.stop() {
				t.Fatal("it ended early")
			}
			simulate.Sleep(time.Minute) // no command is under way
		}
		end := time.Now().Add(time.Second)
		l.start(end)
		<-l.Done()
		if now := time.Now(); !now.Equal(end) || !errors.Is(l.Err(), context.DeadlineExceeded) || l.stop() {
			t.Errorf("it ended %v after its deadline with %v", now.Sub(end), l.Err())
		}
		if d, ok := l.Deadline(); !ok || !d.Equal(end) {
			t.Errorf("the deadline is %v, want %v", d, end)
		}
	})
}
