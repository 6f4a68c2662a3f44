package testbed

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/order"
)

// Evidence is all that is known of the sale now: the events that the processes recorded, the
// samples of the lock store, the answers to the buyers, and the rows of the database.
func (sale *Sale) Evidence() judge.Evidence {
	r := sale.run
	ev := judge.Evidence{LockStore: LockStore(sale.Policy.Lock)}
	sale.mu.Lock()
	observers, answers := slices.Clone(sale.observers), slices.Clone(sale.answers)
	sale.mu.Unlock()
	for _, o := range observers {
		ev.Samples = append(ev.Samples, o.Samples()...)
	}
	ev.End = now()
	ev.Events = sale.Events()
	for _, i := range sale.instances {
		ev.Deaths = append(ev.Deaths, i.deaths()...)
	}
	ev.Faults = r.Faults()
	for _, a := range answers {
		if a.Code == load.Created {
			ev.Acks = append(ev.Acks, judge.Ack{Order: a.Order, User: a.User})
		}
	}
	if r.RealServers() || len(sale.instances) == 0 {
		ev.Database = "MariaDB"
		ev.Audit, ev.Rows = sale.readDatabase()
		return ev
	}
	ev.Database = "SQLite"
	if i := slices.IndexFunc(sale.instances, (*Instance).Alive); i >= 0 {
		ev.Audit, ev.Rows = sale.readThroughAPI(sale.instances[i], answers)
	}
	return ev
}

// readDatabase reads the shared database without the API: a process that is dead or paused
// cannot answer, and a wrong one should not be asked.
func (sale *Sale) readDatabase() (*order.Audit, []order.Order) {
	r := sale.run
	db := r.DB()
	audit, err := db.Orders().Audit(r.ctx, sale.Voucher)
	r.must(err)
	rows, err := db.RowPool().QueryContext(r.ctx,
		"SELECT id, voucher_id, user_id, status FROM orders WHERE voucher_id = ? ORDER BY id", sale.Voucher)
	r.must(err)
	defer rows.Close()
	orders := []order.Order{}
	for rows.Next() {
		var o order.Order
		r.must(rows.Scan(&o.ID, &o.VoucherID, &o.UserID, &o.Status))
		orders = append(orders, o)
	}
	r.must(rows.Err())
	return &audit, orders
}

// readThroughAPI asks the API process that owns the embedded database. The API lists orders by
// user, so it asks for every user that tried to buy.
func (sale *Sale) readThroughAPI(at *Instance, answers []load.Answer) (*order.Audit, []order.Order) {
	r := sale.run
	var told struct {
		InitialStock  int64 `json:"initial_stock"`
		Stock         int64 `json:"stock"`
		Orders        int64 `json:"orders"`
		DistinctUsers int64 `json:"distinct_users"`
		Pending       int64 `json:"pending"`
	}
	id := strconv.FormatInt(sale.Voucher, 10)
	sale.get(at, "/api/v1/vouchers/"+id+"/audit", 0, &told)
	orders := []order.Order{}
	asked := map[int64]bool{}
	for _, a := range answers {
		if asked[a.User] {
			continue
		}
		asked[a.User] = true
		var page struct {
			Orders []struct {
				OrderID   int64        `json:"order_id,string"`
				VoucherID int64        `json:"voucher_id,string"`
				Status    order.Status `json:"status"`
			} `json:"orders"`
		}
		sale.get(at, fmt.Sprintf("/api/v1/orders?limit=%d", pageSize), a.User, &page)
		for _, o := range page.Orders {
			if o.VoucherID == sale.Voucher {
				orders = append(orders, order.Order{ID: o.OrderID, VoucherID: o.VoucherID, UserID: a.User, Status: o.Status})
			}
		}
	}
	r.Logf("the embedded database was asked for the orders of %d users", len(asked))
	return &order.Audit{
		InitialStock: told.InitialStock, Stock: told.Stock,
		Orders: told.Orders, DistinctUsers: told.DistinctUsers, Pending: told.Pending,
	}, orders
}

// pageSize is more than one user's orders.
const pageSize = 100

func (sale *Sale) get(at *Instance, path string, user int64, into any) {
	r := sale.run
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	status, err := r.env.client.Do(ctx, at.Target(), http.MethodGet, path, user, nil, into)
	r.must(err)
	if status != http.StatusOK {
		r.Fatalf("%w", &statusError{path: path, status: status})
	}
}
