package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
)

// refusal is the answer to an order that was refused.
type refusal struct {
	code, retryAfter string
	after            time.Duration
}

// try sends one order to the i-th process. accepted is its id.
func (s *testSale) try(i, user int) (accepted string, refused refusal) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.urls[i%len(s.urls)]+"/api/v1/vouchers/"+s.voucher+"/orders", nil)
	if err != nil {
		s.t.Error(err)
		return "", refusal{}
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	begun := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return "", refusal{code: "network"}
	}
	defer resp.Body.Close()
	var answer struct {
		OrderID string `json:"order_id"`
		Code    string
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		s.t.Error(err)
	}
	if resp.StatusCode == http.StatusAccepted {
		return answer.OrderID, refusal{}
	}
	return "", refusal{answer.Code, resp.Header.Get("Retry-After"), time.Since(begun)}
}

// The database is away, or so slow that it might as well be, while buyers keep ordering. As many orders are
// accepted as may be pending in Redis, and all others are answered with unavailable and Retry-After. When the
// database is back, every accepted order is confirmed, and the sale continues.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	const stock, pending = 400, 60
	for _, tc := range []struct {
		name string
		hold func(mariadb *testkit.SQLServer, s *testSale, where servers) (release func())
	}{
		{"MariaDB stands still", func(mariadb *testkit.SQLServer, _ *testSale, _ servers) func() {
			mariadb.Pause()
			return mariadb.Resume
		}},
		{"the voucher's row is locked", func(_ *testkit.SQLServer, s *testSale, where servers) func() { return s.holdRow(where.db) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mariadb, server := testkit.NewMariaDB(t), testkit.NewRedis(t)
			where := servers{db: mariadb.Database(t), redis: []string{server.Addr()}}.with("SECKILL_MAX_PENDING=" + strconv.Itoa(pending))
			a, b := startProcess(t, where), startProcess(t, where)
			sale := openSale(t, stock, admissionPolicy, a, b)
			codes, orders := sale.orderAll(100, 1, nil)
			if codes["accepted"]+codes["unavailable"] != 100 || codes["accepted"] < pending {
				t.Fatalf("%v", codes)
			}
			sale.atRest(0)

			release := tc.hold(mariadb, sale, where)
			before, most := len(orders), int64(0)
			bucket := ledger.New(server.Client(t), ledger.Options{})
			for round := range 3 {
				more := sale.pushAll(1000+1000*round, 300)
				maps.Copy(orders, more)
				most = max(most, bucket.State(t.Context(), sale.keys()).Pending)
			}
			if accepted := len(orders) - before; accepted != pending || most != pending {
				t.Errorf("%d accepted while nothing could be persisted, %d on their way; want %d", accepted, most, pending)
			}
			release()

			waitReady(t, a, b)
			sale.atRest(0)
			for user := 5000; len(orders) < stock && user < 20_000; user += 300 {
				_, more := sale.orderAll(300, 1, nil) // some of them have an order already
				maps.Copy(orders, more)
				maps.Copy(orders, sale.pushAll(user, 300))
			}
			sale.checkAllConfirmed(stock, orders)
		})
	}
}

// pushAll sends one order for each of n users. While there is stock, a refused order has Retry-After.
func (s *testSale) pushAll(user, n int) map[string]int {
	s.t.Helper()
	var mu sync.Mutex
	orders := map[string]int{}
	var buyers sync.WaitGroup
	for c := range connections {
		buyers.Go(func() {
			for u := user + c; u < user+n; u += connections {
				accepted, refused := s.try(u, u)
				mu.Lock()
				switch {
				case accepted != "":
					orders[accepted] = u
				case refused.code != "unavailable" && refused.code != "sold_out":
					s.t.Errorf("user %d was told %q", u, refused.code)
				case refused.code == "unavailable" && refused.retryAfter == "":
					s.t.Errorf("user %d was not told when to come again", u)
				}
				mu.Unlock()
			}
		})
	}
	buyers.Wait()
	return orders
}

// While Redis hangs, a limited number of buyers wait for a decision. Every further order is refused at once.
// When Redis continues, the waiting orders and all later ones are served.
func TestInFlightBound(t *testing.T) {
	const bound, buyerLoop = 8, 40
	server := testkit.NewRedis(t)
	a := startProcess(t, servers{db: testkit.MariaDB(t), redis: []string{server.Addr()}}.with("SECKILL_MAX_IN_FLIGHT="+strconv.Itoa(bound)))
	sale := openSale(t, 100, admissionPolicy, a)
	if accepted, refused := sale.try(0, 1); accepted == "" {
		t.Fatalf("%+v", refused)
	}
	sale.atRest(0)

	server.Pause()
	type answer struct {
		accepted string
		refused  refusal
	}
	answers := make(chan answer, buyerLoop)
	for user := range buyerLoop {
		go func() {
			accepted, refused := sale.try(0, 100+user)
			answers <- answer{accepted, refused}
		}()
	}
	// Requests that may not wait are answered first; no other can be, before Redis
	// goes on or patience ends, after 2 s.
	for range buyerLoop - bound {
		got := <-answers
		if got.refused.code != "unavailable" || got.refused.retryAfter == "" || got.refused.after > 1500*time.Millisecond {
			t.Errorf("beyond the bound: %+v", got)
		}
	}
	select {
	case got := <-answers:
		t.Errorf("answered by whom? %+v", got)
	default:
	}
	server.Resume()
	for range bound {
		if got := <-answers; got.accepted == "" {
			t.Errorf("within the bound: %+v", got.refused)
		}
	}
	for user := range buyerLoop {
		if accepted, refused := sale.try(0, 1000+user); accepted == "" {
			t.Errorf("afterwards: %+v", refused)
		}
	}
	if now := sale.atRest(0); now.Orders != 1+bound+buyerLoop || !now.Balanced {
		t.Errorf("%+v", now)
	}
}
