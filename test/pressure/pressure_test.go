package pressure

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

// The database stands still while buyers keep ordering. As many orders are accepted as may be pending in Redis, and all
// others are answered with unavailable and Retry-After. When the database is back, every accepted order is confirmed, and
// the sale continues.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	const stock, pending = 400, 60
	mariadb, server := testkit.NewMariaDB(t), testkit.NewRedis(t)
	where := harness.Stores{DB: mariadb.Database(t), Redis: []string{server.Addr()}}.With("SECKILL_MAX_PENDING=" + strconv.Itoa(pending))
	a, b := harness.Start(t, where), harness.Start(t, where)
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, a, b)
	codes, orders := sale.OrderAll(100, 1, nil)
	if codes["accepted"]+codes["unavailable"] != 100 || codes["accepted"] < pending {
		t.Fatalf("%v", codes)
	}
	sale.AtRest(0)

	mariadb.Pause()
	before, most := len(orders), int64(0)
	bucket := ledger.New(server.Client(t), ledger.Options{})
	for round := range 3 {
		maps.Copy(orders, pushAll(sale, 1000+1000*round, 300))
		most = max(most, bucket.State(t.Context(), sale.Keys()).Pending)
	}
	if accepted := len(orders) - before; accepted != pending || most != pending {
		t.Errorf("%d accepted while nothing could be persisted, %d on their way; want %d", accepted, most, pending)
	}
	mariadb.Resume()

	harness.WaitReady(t, a, b)
	sale.AtRest(0)
	for user := 5000; len(orders) < stock && user < 20_000; user += 300 {
		_, more := sale.OrderAll(300, 1, nil) // some of them have an order already
		maps.Copy(orders, more)
		maps.Copy(orders, pushAll(sale, user, 300))
	}
	sale.CheckAllConfirmed(stock, orders)
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
				status, body, retryAfter := push(s, u)
				mu.Lock()
				switch {
				case status == http.StatusAccepted:
					orders[body.OrderID] = u
				case body.Code != "unavailable" && body.Code != "sold_out":
					s.T.Errorf("user %d was told %q", u, body.Code)
				case body.Code == "unavailable" && retryAfter == "":
					s.T.Errorf("user %d was not told when to come again", u)
				}
				mu.Unlock()
			}
		})
	}
	buyers.Wait()
	return orders
}

type answer struct {
	OrderID string `json:"order_id"`
	Code    string
}

// push sends one order.
func push(s *harness.Sale, user int) (status int, body answer, retryAfter string) {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.URLs[user%len(s.URLs)]+"/api/v1/vouchers/"+s.Voucher+"/orders", nil)
	if err != nil {
		s.T.Error(err)
		return 0, body, ""
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	resp, err := s.Client.Do(req)
	if err != nil {
		s.T.Error(err)
		return 0, body, ""
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		s.T.Error(err)
	}
	return resp.StatusCode, body, resp.Header.Get("Retry-After")
}
