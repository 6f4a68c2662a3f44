package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// silentClients has eight clients request a path and read nothing of the answers.
func silentClients(t *testing.T, path string) (*server, []*client) {
	t.Helper()
	s := newFixture(t, lab).listen(t)
	var deaf []*client
	for range 8 {
		c := s.connect()
		c.send(header("GET", path) + "\r\n")
		deaf = append(deaf, c)
	}
	synctest.Wait()
	return s, deaf
}

// Clients that do not read occupy none of the slots in which answers are rendered, and are disconnected
// after a while.
func TestMetricsAreAnsweredWhileOthersDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, deaf := silentClients(t, "/metrics")
		reads, began := s.connect(), time.Now()
		reads.send(header("GET", "/metrics") + "\r\n")
		if reads.want(http.StatusOK); time.Since(began) != 0 {
			t.Errorf("answered after %v", time.Since(began))
		}
		simulate.Sleep(10*time.Second - 1)
		if deaf[0].closed() {
			t.Error("disconnected before its time")
		}
		simulate.Sleep(1)
		synctest.Wait()
		for _, c := range deaf {
			if !c.closed() {
				t.Error("a client that has read nothing for 10 s still has its connection")
			}
		}
	})
}

// A client that does not read delays a stop by two seconds.
func TestStopDoesNotWaitForClientsThatDoNotRead(t *testing.T) {
	for _, path := range []string{"/metrics", "/readyz", "/api/v1/vouchers"} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := silentClients(t, path)
			began := time.Now()
			fail.If(t, s.Stop(t.Context()))
			// Shutdown looks for idle connections twice a second at least.
			if took := time.Since(began); took < 2*time.Second || took > 2600*time.Millisecond {
				t.Errorf("%s: the stop took %v", path, took)
			}
		})
	}
}

// A request that still runs when the timeout of a stop is over is cancelled, and answered.
func TestStopCancelsWorkAndAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, lab)
		r.orders.place = func(ctx context.Context, _ order.Request) (order.Order, error) {
			<-ctx.Done()
			return order.Order{}, ctx.Err()
		}
		s := r.listen(t)
		c := s.connect()
		c.send(anOrder)
		synctest.Wait()
		stopped, began := make(chan error, 1), time.Now()
		go func() {
			finishing, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			stopped <- s.Stop(finishing)
		}()
		status, body := c.answer()
		if took := time.Since(began); status != http.StatusServiceUnavailable || !strings.Contains(body, `"unavailable"`) || took != 10*time.Second {
			t.Errorf("%d %s after %v", status, body, took)
		}
		if err := <-stopped; err != nil {
			t.Errorf("the stop ended with %v", err)
		}
	})
}
