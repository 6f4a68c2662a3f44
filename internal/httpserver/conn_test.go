package httpserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpserver"
	"seckill/internal/httpserver/servertest"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A request that is answered soon costs no background read and sets no deadline of its own.
func TestSoonAnsweredRequestsShareDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, func(context.Context) error { simulate.Sleep(time.Millisecond); return nil })
		ask := func(n int) (background, deadlines int64) {
			for range n {
				c.Send(aRequest)
				c.Want(http.StatusCreated)
				synctest.Wait()
			}
			return c.Server.Background.Load(), c.Server.Deadlines.Load()
		}
		_, before := ask(3)
		background, after := ask(100)
		if background != 0 || after != before {
			t.Errorf("%d background reads and %d deadlines of 100 requests, want none", background, after-before)
		}
	})
}

// A client that leaves is noticed by whoever waits for the end of the request's context, whenever that begins.
func TestLeavingIsNoticed(t *testing.T) {
	for _, waitsAfter := range []time.Duration{0, 20 * time.Millisecond} {
		for _, leavesAfter := range []time.Duration{0, 5 * time.Millisecond, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				noticed := make(chan time.Duration, 1)
				c := connect(t, func(ctx context.Context) error {
					began := time.Now()
					simulate.Sleep(waitsAfter)
					<-ctx.Done()
					noticed <- time.Since(began)
					return ctx.Err()
				})
				c.Send(aRequest)
				simulate.Sleep(leavesAfter)
				_ = c.Close()
				if after := <-noticed; after > max(leavesAfter, waitsAfter) {
					t.Errorf("a client that left after %v was noticed after %v by who waited from %v on", leavesAfter, after, waitsAfter)
				}
			})
		}
	}
}

// A client that leaves is noticed also after another one who waited has stopped waiting.
func TestLeavingIsNoticedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, func(ctx context.Context) error {
			simulate.Sleep(time.Millisecond) // net/http's background read is over
			_ = ctx.Done()
			waited := httpserver.Deadline{Parent: ctx, At: time.Now().Add(time.Second)}
			_ = waited.Done()
			waited.End()
			if <-ctx.Done(); !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("the context ended with %v", ctx.Err())
			}
			return ctx.Err()
		})
		c.Send(aRequest)
		simulate.Sleep(time.Second)
		_ = c.Close()
	})
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Requests that are sent before the one before them is answered are all answered, whether they arrive with the first or
// while it is watched, and also if nobody watches.
func TestPipelinedRequests(t *testing.T) {
	pause := map[string]func(context.Context){
		"nobody waits": func(context.Context) { simulate.Sleep(100 * time.Millisecond) },
		"waits":        func(ctx context.Context) { _ = waitFor(ctx, 100*time.Millisecond) },
		"waits later": func(ctx context.Context) {
			simulate.Sleep(20 * time.Millisecond)
			_ = waitFor(ctx, 80*time.Millisecond)
		},
	}
	for name, work := range pause {
		for _, gap := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, %v", name, gap), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := connect(t, func(ctx context.Context) error { work(ctx); return ctx.Err() })
					go func() {
						if gap == 0 {
							_, _ = io.WriteString(c, strings.Repeat(aRequest, 3))
							return
						}
						for i := range 3 {
							simulate.Sleep(time.Duration(min(i, 1)) * gap)
							_, _ = io.WriteString(c, aRequest)
						}
					}()
					for range 3 {
						c.Want(http.StatusCreated)
					}
				})
			})
		}
	}
}

// Somebody who waits for the end of the context takes nothing from a body that arrives meanwhile.
func TestWatchingLeavesTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sent = `{"a":"body that arrives in pieces"}`
		c := servertest.Serve(t, httpserver.Config{}, httpserver.WatchClient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			simulate.Sleep(30 * time.Millisecond)
			if got, err := io.ReadAll(r.Body); err != nil || string(got) != sent {
				t.Errorf("read %q, %v; want %q", got, err, sent)
			}
		}))).Client()
		head := servertest.Header("POST", "/", fmt.Sprint("Content-Length: ", len(sent))) + "\r\n"
		for range 3 {
			go func() {
				for _, piece := range []string{head, sent[:1], sent[1:2], sent[2:]} {
					simulate.Sleep(20 * time.Millisecond)
					_, _ = io.WriteString(c, piece)
				}
			}()
			c.Want(http.StatusOK)
			simulate.Sleep(time.Second)
		}
	})
}

// The deadlines that are shared still end a connection: one that is idle, and one whose header does not end.
func TestSharedDeadlinesStillEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		sent            string
		earliest, until time.Duration
	}{
		"idle":          {"", 119 * time.Second, 2 * time.Minute},
		"half a header": {"POST / HTTP/1.1\r\n", 9 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, nothing)
				for range 20 {
					c.Send(aRequest)
					c.Want(http.StatusCreated)
					simulate.Sleep(300 * time.Millisecond)
				}
				began := time.Now()
				c.Send(tt.sent)
				c.WantClosed()
				// The last request was 300 ms before.
				if took := time.Since(began) + 300*time.Millisecond; took < tt.earliest || took > tt.until+300*time.Millisecond {
					t.Errorf("closed after %v, want %v to %v", took, tt.earliest, tt.until)
				}
			})
		})
	}
}

// A connection without a request stays open as long as the configuration says.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := servertest.Serve(t, httpserver.Config{IdleTimeout: 7 * time.Second}, doing(nothing)).Client()
		c.Send(aRequest)
		c.Want(http.StatusCreated)
		began := time.Now()
		c.WantClosed()
		fail.Unequal(t, time.Since(began), 7*time.Second, "closed after")
	})
}

// Neither the deadline for reading a request nor one of an earlier read cuts off its work.
func TestLongWorkOutlivesDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 15 * time.Second // longer than a request may take to be read
		c := connect(t, func(ctx context.Context) error { return waitFor(ctx, takes) })
		withBody := servertest.Header("POST", "/", "Content-Length: 2") + "\r\n{}"
		for range 10 { // longer than an idle connection lives
			for _, request := range []string{aRequest, withBody} {
				c.Send(request)
				c.Want(http.StatusCreated)
			}
		}
	})
}
