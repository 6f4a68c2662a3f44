package httpserver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpserver"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

type testKey struct{}

// Its methods behave as those of context.WithDeadline, in whatever order they are called.
func TestDeadlineIsAContext(t *testing.T) {
	bare := func(context.Context) {}
	waited := func(ctx context.Context) { _ = ctx.Done() }
	derived := func(ctx context.Context) {
		_, cancel := context.WithCancel(ctx)
		cancel()
	}
	for name, use := range map[string]func(context.Context){"unused": bare, "waited for": waited, "derived from": derived} {
		for how, c := range map[string]struct {
			end  func(cancelParent context.CancelFunc, d *httpserver.Deadline)
			want error
		}{
			"not":        {func(context.CancelFunc, *httpserver.Deadline) {}, nil},
			"by parent":  {func(cancel context.CancelFunc, _ *httpserver.Deadline) { cancel() }, context.Canceled},
			"by the end": {func(_ context.CancelFunc, d *httpserver.Deadline) { d.End() }, context.Canceled},
			"by time":    {func(context.CancelFunc, *httpserver.Deadline) { simulate.Sleep(time.Minute) }, context.DeadlineExceeded},
		} {
			t.Run(name+", ended "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancel(context.WithValue(t.Context(), testKey{}, "v"))
					defer cancel()
					d := &httpserver.Deadline{Parent: parent, At: time.Now().Add(time.Minute)}
					defer d.End()
					use(d)
					fail.NowIf(t, d.Err(), "ended before its time")
					c.end(cancel, d)
					synctest.Wait()
					if err := d.Err(); !errors.Is(err, c.want) {
						t.Errorf("Err = %v, want %v", err, c.want)
					}
					if cause := context.Cause(d); !errors.Is(cause, c.want) {
						t.Errorf("Cause = %v, want %v", cause, c.want)
					}
					select {
					case <-d.Done():
						if c.want == nil {
							t.Error("Done is closed")
						}
					default:
						if c.want != nil {
							t.Error("Done is open")
						}
					}
					if d.Value(testKey{}) != "v" {
						t.Error("the parent's value is gone")
					}
				})
			})
		}
	}
}

// The parent's own deadline applies if it is earlier.
func TestDeadlineOfTheParent(t *testing.T) {
	now := time.Now()
	parent, cancel := context.WithDeadline(t.Context(), now.Add(time.Minute))
	defer cancel()
	for at, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Minute} {
		d := &httpserver.Deadline{Parent: parent, At: now.Add(at)}
		if got, ok := d.Deadline(); !ok || !got.Equal(now.Add(want)) {
			t.Errorf("at %v: %v, %t", at, got.Sub(now), ok)
		}
		d.End()
	}
}
