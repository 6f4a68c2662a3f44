package sale

import (
	"database/sql"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// moveEnd moves the end of the sale in the database alone, as an operator does.
func moveEnd(s *harness.Sale, where testkit.Database, end time.Time) {
	s.T.Helper()
	db, err := sql.Open("mysql", where.DSN)
	if err != nil {
		s.T.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(s.T.Context(), "UPDATE vouchers SET end_at = ? WHERE id = ?",
		end.UTC().Format("2006-01-02 15:04:05.000000"), s.Voucher); err != nil {
		s.T.Fatal(err)
	}
}

// redisKeys returns what Redis has of the voucher.
func redisKeys(s *harness.Sale, client *redis.Client) []string {
	s.T.Helper()
	keys, err := client.Keys(s.T.Context(), "*adm:{"+s.Voucher+"*").Result()
	if err != nil {
		s.T.Fatal(err)
	}
	return keys
}

// The end of a sale is moved after its voucher has left Redis. Many buyers come at once, at two processes: the
// voucher is opened again from the database, with the stock and the buyers that it had.
func TestVoucherWhoseEndIsMovedIsOpenedAgain(t *testing.T) {
	const stock, before, after = 150, 60, 200
	t.Parallel()
	server := testkit.NewRedis(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}.With("SECKILL_FORGET_AFTER=1s")
	sale := harness.OpenSale(t, stock, `{"flow":"admission","buckets":4}`, harness.Start(t, s), harness.Start(t, s))
	codes, orders := sale.OrderAllUntilAnswered(before)
	if codes["accepted"] != before {
		t.Fatal(codes)
	}
	sale.AtRest(0)
	client := server.Client(t)
	keys := len(redisKeys(sale, client))
	moveEnd(sale, s.DB, time.Now())
	testkit.Until(t, "the voucher has left Redis", func() bool { return len(redisKeys(sale, client)) == 0 })
	for i := range sale.URLs {
		if told := sale.BuyUntilAnswered(i, 1000, ""); told.Code != "sale_ended" {
			t.Errorf("after the end a buyer is told %+v", told)
		}
	}
	if a := sale.Audit(1); keys == 0 || a.Orders != before || a.Stock != stock-before || !a.Balanced {
		t.Errorf("%d keys before; forgotten, the voucher has %+v", keys, a)
	}
	moveEnd(sale, s.DB, time.Now().Add(time.Hour))
	testkit.Until(t, "both processes show the new end", func() bool {
		for _, url := range sale.URLs {
			var shown struct {
				EndAt time.Time `json:"end_at"`
			}
			_, body := harness.Call(t, http.MethodGet, url+"/api/v1/vouchers/"+sale.Voucher, nil, "")
			if err := json.Unmarshal([]byte(body), &shown); err != nil || time.Now().After(shown.EndAt) {
				return false
			}
		}
		return true
	})
	if left := redisKeys(sale, client); len(left) > 0 {
		t.Errorf("nobody has ordered, and Redis has %v", left)
	}
	codes, more := sale.OrderAllUnder("later-", after) // the first of them have an order
	if codes["accepted"] != stock-before || codes["already_ordered"] < before || codes["sold_out"] == 0 {
		t.Errorf("after the end was moved buyers were told %v", codes)
	}
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(stock, orders)
	t.Logf("%d keys, none, %d again; %v", keys, len(redisKeys(sale, client)), codes)
}
