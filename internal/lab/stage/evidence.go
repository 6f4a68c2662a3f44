package stage

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

// Evidence is all that is known of the sale now: what the processes recorded, what was
// seen in the lock's store where that was observed, what buyers were told, and what the
// database holds.
func (sale *Sale) Evidence() judge.Evidence {
	s := sale.stage
	ev := judge.Evidence{LockStore: LockStore(sale.Policy.Lock)}
	sale.mu.Lock()
	observers, answers := slices.Clone(sale.observers), slices.Clone(sale.answers)
	sale.mu.Unlock()
	for _, o := range observers {
		ev.Samples = append(ev.Samples, o.Samples()...)
	}
	ev.End = now()
	ev.Events = sale.Events()
	for _, i := range sale.on {
		deaths, pauses := i.fate()
		ev.Deaths = append(ev.Deaths, deaths...)
		ev.Pauses = append(ev.Pauses, pauses...)
	}
	ev.Faults = s.Faults()
	for _, a := range answers {
		if a.Code == load.Created {
			ev.Acks = append(ev.Acks, judge.Ack{Order: a.Order, User: a.User})
		}
	}
	if s.Real() || len(sale.on) == 0 {
		ev.Database = "MariaDB"
		ev.Audit, ev.Rows = sale.ask()
		return ev
	}
	ev.Database = "SQLite"
	if i := slices.IndexFunc(sale.on, (*Instance).running); i >= 0 {
		ev.Audit, ev.Rows = sale.askEmbedded(sale.on[i], answers)
	}
	return ev
}

// ask looks into the shared database, past the API: a process that is dead or stands
// still cannot answer, and one that is wrong should not.
func (sale *Sale) ask() (*order.Audit, []order.Order) {
	s := sale.stage
	db := s.DB()
	audit, err := db.Orders().Audit(s.ctx, sale.Voucher)
	s.must(err)
	rows, err := db.RowPool().QueryContext(s.ctx,
		"SELECT id, voucher_id, user_id, status FROM orders WHERE voucher_id = ? ORDER BY id", sale.Voucher)
	s.must(err)
	defer rows.Close()
	orders := []order.Order{}
	for rows.Next() {
		var o order.Order
		s.must(rows.Scan(&o.ID, &o.VoucherID, &o.UserID, &o.Status))
		orders = append(orders, o)
	}
	s.must(rows.Err())
	return &audit, orders
}

// askEmbedded asks the API process that has the database to itself. It knows orders by
// their users, so those are asked for who wanted one.
func (sale *Sale) askEmbedded(at *Instance, answers []load.Answer) (*order.Audit, []order.Order) {
	s := sale.stage
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
	s.Logf("the embedded database was asked for the orders of %d users", len(asked))
	return &order.Audit{
		InitialStock: told.InitialStock, Stock: told.Stock,
		Orders: told.Orders, DistinctUsers: told.DistinctUsers, Pending: told.Pending,
	}, orders
}

// pageSize is more than one user has.
const pageSize = 100

func (sale *Sale) get(at *Instance, path string, user int64, into any) {
	s := sale.stage
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	status, err := s.house.client.Do(ctx, at.Target(), http.MethodGet, path, user, nil, into)
	s.must(err)
	if status != http.StatusOK {
		s.Fatalf("%w", &statusError{path: path, status: status})
	}
}
