package main

import (
	"database/sql"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// moveEnd moves the end of the sale in the database alone, as an operator does.
func (s *testSale) moveEnd(where testkit.Database, end time.Time) {
	s.t.Helper()
	db, err := sql.Open("mysql", where.DSN)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(s.t.Context(), "UPDATE vouchers SET end_at = ? WHERE id = ?",
		end.UTC().Format("2006-01-02 15:04:05.000000"), s.voucher); err != nil {
		s.t.Fatal(err)
	}
}

// redisKeys returns what Redis has of the voucher.
func (s *testSale) redisKeys(client *redis.Client) []string {
	s.t.Helper()
	keys, err := client.Keys(s.t.Context(), "*adm:{"+s.voucher+"*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return keys
}

// The end of a sale is moved after its voucher has left Redis. Many buyers come at once, at two processes: the
// voucher is opened again from the database, with the stock and the buyers that it had.
func TestVoucherWhoseEndIsMovedIsOpenedAgain(t *testing.T) {
	const stock, before, after = 150, 60, 200
	for name, policy := range map[string]string{"one bucket": `{"flow":"admission"}`, "four buckets": `{"flow":"admission","buckets":4}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.NewRedis(t)
			s := servers{db: testkit.MariaDB(t), redis: []string{server.Addr()}}.with("SECKILL_FORGET_AFTER=1s")
			sale := openSale(t, stock, policy, startProcess(t, s), startProcess(t, s))
			codes, orders := sale.orderAllUntilAnswered(before)
			if codes["accepted"] != before {
				t.Fatal(codes)
			}
			sale.atRest(0)
			client := server.Client(t)
			keys := len(sale.redisKeys(client))
			sale.moveEnd(s.db, time.Now())
			testkit.Until(t, "the voucher has left Redis", func() bool { return len(sale.redisKeys(client)) == 0 })
			for i := range sale.urls {
				if told := sale.buyUntilAnswered(i, 1000, ""); told.code != "sale_ended" {
					t.Errorf("after the end a buyer is told %+v", told)
				}
			}
			if a := sale.audit(1); keys == 0 || a.Orders != before || a.Stock != stock-before || !a.Balanced {
				t.Errorf("%d keys before; forgotten, the voucher has %+v", keys, a)
			}
			sale.moveEnd(s.db, time.Now().Add(time.Hour))
			testkit.Until(t, "both processes show the new end", func() bool {
				for _, url := range sale.urls {
					var shown struct {
						EndAt time.Time `json:"end_at"`
					}
					_, body := call(t, http.MethodGet, url+"/api/v1/vouchers/"+sale.voucher, nil, "")
					if err := json.Unmarshal([]byte(body), &shown); err != nil || time.Now().After(shown.EndAt) {
						return false
					}
				}
				return true
			})
			if left := sale.redisKeys(client); len(left) > 0 {
				t.Errorf("nobody has ordered, and Redis has %v", left)
			}
			codes, more := sale.orderAllUnder("later-", after) // the first of them have an order
			if codes["accepted"] != stock-before || codes["already_ordered"] < before || codes["sold_out"] == 0 {
				t.Errorf("after the end was moved buyers were told %v", codes)
			}
			maps.Copy(orders, more)
			sale.checkAllConfirmed(stock, orders)
			t.Logf("%d keys, none, %d again; %v", keys, len(sale.redisKeys(client)), codes)
		})
	}
}
