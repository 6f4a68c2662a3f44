package httpserver_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/httpserver"
	"seckill/internal/httpserver/servertest"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// rendered is a handler whose answers are rendered into memory.
func rendered() http.Handler {
	counter := prometheus.NewCounter(prometheus.CounterOpts{})
	return httpserver.Buffered(doing(nothing), httpserver.NewLimiter(0, 0, counter, counter))
}

// silentClients has eight clients send a request and read nothing of the answers.
func silentClients(t *testing.T, h http.Handler) (*servertest.Server, []*servertest.Client) {
	t.Helper()
	s := servertest.Serve(t, httpserver.Config{}, h)
	var deaf []*servertest.Client
	for range 8 {
		c := s.Client()
		c.Send(aRequest)
		deaf = append(deaf, c)
	}
	synctest.Wait()
	return s, deaf
}

// Clients that do not read occupy none of the slots in which answers are rendered, and are disconnected after a while.
func TestAnswersAreRenderedWhileOthersDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, deaf := silentClients(t, rendered())
		reads, began := s.Client(), time.Now()
		reads.Send(aRequest)
		if reads.Want(http.StatusCreated); time.Since(began) != 0 {
			t.Errorf("answered after %v", time.Since(began))
		}
		simulate.Sleep(10*time.Second - 1)
		if deaf[0].Closed() {
			t.Error("disconnected before its time")
		}
		simulate.Sleep(1)
		synctest.Wait()
		for _, c := range deaf {
			if !c.Closed() {
				t.Error("a client that has read nothing for 10 s still has its connection")
			}
		}
	})
}

// A client that does not read delays a stop by two seconds.
func TestStopDoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	for name, h := range map[string]http.Handler{"rendered": rendered(), "written": doing(nothing)} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := silentClients(t, h)
			began := time.Now()
			fail.If(t, s.Stop(t.Context()))
			// Shutdown looks for idle connections twice a second at least.
			if took := time.Since(began); took < 2*time.Second || took > 2600*time.Millisecond {
				t.Errorf("%s: the stop took %v", name, took)
			}
		})
	}
}

// The context of a request that still runs when the time of a stop is over ends with the reason, and the request may
// answer. If it does not, it is cut off and the stop says so.
func TestStopCutsOff(t *testing.T) {
	for after, want := range map[time.Duration]error{4 * time.Second: nil, time.Minute: context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			answered := make(chan struct{})
			s := servertest.Serve(t, httpserver.Config{AnswerTimeout: 5 * time.Second}, httpserver.WatchClient(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				defer close(answered)
				if <-r.Context().Done(); !errors.Is(context.Cause(r.Context()), httpserver.ErrStopping) {
					t.Errorf("the context ended with %v", context.Cause(r.Context()))
				}
				simulate.Sleep(after)
			})))
			c, began := s.Client(), time.Now()
			c.Send(aRequest)
			synctest.Wait()
			if want == nil {
				go c.Want(http.StatusOK)
			}
			finishing, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := s.Stop(finishing); !errors.Is(err, want) || time.Since(began) > 15*time.Second {
				t.Errorf("%v after %v, want %v", err, time.Since(began), want)
			}
			<-answered
		})
	}
}

// A server that drains answers, and closes each connection after that.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := servertest.Serve(t, httpserver.Config{}, doing(nothing))
		c := s.Client()
		c.Send(aRequest)
		c.Want(http.StatusCreated)
		s.Drain()
		c.Send(aRequest)
		c.Want(http.StatusCreated)
		began := time.Now()
		if c.WantClosed(); time.Since(began) > time.Second {
			t.Errorf("closed after %v", time.Since(began))
		}
	})
}
