package pressure

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
	"seckill/test/harness"
)

// refusal is the answer to an order that was refused.
type refusal struct {
	code, retryAfter string
	after            time.Duration
}

// try sends one order to the i-th process. accepted is its id.
func try(s *harness.Sale, i, user int) (accepted string, refused refusal) {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.URLs[i%len(s.URLs)]+"/api/v1/vouchers/"+s.Voucher+"/orders", nil)
	if err != nil {
		s.T.Error(err)
		return "", refusal{}
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	begun := time.Now()
	resp, err := s.Client.Do(req)
	if err != nil {
		return "", refusal{code: "network"}
	}
	defer resp.Body.Close()
	var answer struct {
		OrderID string `json:"order_id"`
		Code    string
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		s.T.Error(err)
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
		hold func(mariadb *testkit.SQLServer, s *harness.Sale, where harness.Stores) (release func())
	}{
		{"MariaDB stands still", func(mariadb *testkit.SQLServer, _ *harness.Sale, _ harness.Stores) func() {
			mariadb.Pause()
			return mariadb.Resume
		}},
		{"the voucher's row is locked", func(_ *testkit.SQLServer, s *harness.Sale, where harness.Stores) func() { return s.HoldRow(where.DB) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mariadb, server := testkit.NewMariaDB(t), testkit.NewRedis(t)
			where := harness.Stores{DB: mariadb.Database(t), Redis: []string{server.Addr()}}.With("SECKILL_MAX_PENDING=" + strconv.Itoa(pending))
			a, b := harness.Start(t, where), harness.Start(t, where)
			sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, a, b)
			codes, orders := sale.OrderAll(100, 1, nil)
			if codes["accepted"]+codes["unavailable"] != 100 || codes["accepted"] < pending {
				t.Fatalf("%v", codes)
			}
			sale.AtRest(0)

			release := tc.hold(mariadb, sale, where)
			before, most := len(orders), int64(0)
			bucket := ledger.New(server.Client(t), ledger.Options{})
			for round := range 3 {
				more := pushAll(sale, 1000+1000*round, 300)
				maps.Copy(orders, more)
				most = max(most, bucket.State(t.Context(), sale.Keys()).Pending)
			}
			if accepted := len(orders) - before; accepted != pending || most != pending {
				t.Errorf("%d accepted while nothing could be persisted, %d on their way; want %d", accepted, most, pending)
			}
			release()

			harness.WaitReady(t, a, b)
			sale.AtRest(0)
			for user := 5000; len(orders) < stock && user < 20_000; user += 300 {
				_, more := sale.OrderAll(300, 1, nil) // some of them have an order already
				maps.Copy(orders, more)
				maps.Copy(orders, pushAll(sale, user, 300))
			}
			sale.CheckAllConfirmed(stock, orders)
		})
	}
}

// pushAll sends one order for each of n users. While there is stock, a refused order has Retry-After.
func pushAll(s *harness.Sale, user, n int) map[string]int {
	s.T.Helper()
	var mu sync.Mutex
	orders := map[string]int{}
	var buyers sync.WaitGroup
	for c := range harness.Connections {
		buyers.Go(func() {
			for u := user + c; u < user+n; u += harness.Connections {
				accepted, refused := try(s, u, u)
				mu.Lock()
				switch {
				case accepted != "":
					orders[accepted] = u
				case refused.code != "unavailable" && refused.code != "sold_out":
					s.T.Errorf("user %d was told %q", u, refused.code)
				case refused.code == "unavailable" && refused.retryAfter == "":
					s.T.Errorf("user %d was not told when to come again", u)
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
	a := harness.Start(t, harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}.With("SECKILL_MAX_IN_FLIGHT="+strconv.Itoa(bound)))
	sale := harness.OpenSale(t, 100, harness.AdmissionPolicy, a)
	if accepted, refused := try(sale, 0, 1); accepted == "" {
		t.Fatalf("%+v", refused)
	}
	sale.AtRest(0)

	server.Pause()
	type answer struct {
		accepted string
		refused  refusal
	}
	answers := make(chan answer, buyerLoop)
	for user := range buyerLoop {
		go func() {
			accepted, refused := try(sale, 0, 100+user)
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
		if accepted, refused := try(sale, 0, 1000+user); accepted == "" {
			t.Errorf("afterwards: %+v", refused)
		}
	}
	if now := sale.AtRest(0); now.Orders != 1+bound+buyerLoop || !now.Balanced {
		t.Errorf("%+v", now)
	}
}
