package byhand

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A bench ends ten minutes after the last move, and half an hour after its beginning.
func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration // a move
		moves int
		want  Ending
		after time.Duration
	}{
		"nobody moves":          {want: Idle, after: idleLimit},
		"nobody moves any more": {every: 9 * time.Minute, moves: 2, want: Idle, after: 18*time.Minute + idleLimit},
		"moved all the time":    {every: 9 * time.Minute, moves: 3, want: TooLong, after: Limit},
		"ended by hand":         {every: time.Minute, moves: 2, want: Ended, after: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := New(Setup{Lock: "lua", Processes: 2, Lease: 5}, "", func() {})
				fail.NowIf(t, err)
				b.ready = true
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.want == Ended {
					time.AfterFunc(c.after, cancel)
				}
				go func() {
					for range c.moves {
						simulate.Sleep(c.every)
						fail.If(t, b.Act("d"))
					}
				}()
				began := time.Now()
				got := b.serve(ctx, func(turn *turn) { b.finish(turn, "done") })
				if took := time.Since(began); got != c.want || took != c.after {
					t.Errorf("%s after %v, want %s after %v", got, took, c.want, c.after)
				}
			})
		})
	}
}

// A bench takes so many moves and no more.
func TestMostMoves(t *testing.T) {
	b, err := New(Setup{Lock: "lua", Processes: 2, Lease: 5}, "", func() {})
	fail.NowIf(t, err)
	fail.Unless(t, b.Act("d"), ErrNotNow, "before it is ready")
	b.ready = true
	for range MaxMoves {
		fail.NowIf(t, b.Act("d"))
	}
	if err := b.Act("d"); !errors.Is(err, ErrNotNow) || len(b.State().Store) != 0 {
		t.Errorf("one more: %v, %+v", err, b.State())
	}
}
