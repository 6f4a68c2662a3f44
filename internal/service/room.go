package service

import (
	"context"
	"log/slog"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission"
	"seckill/internal/database"
	"seckill/internal/metrics"
	"seckill/internal/order"
	"seckill/internal/room"
	"seckill/internal/room/ledger"
	"seckill/internal/voucher"
)

// newRooms returns the waiting rooms.
func newRooms(cfg Config, stores *stores, vouchers *voucher.Cache, gate *admission.Gate, registry prometheus.Registerer, log *slog.Logger) *room.Service {
	parts := 0
	if cfg.Embedded { // the embedded server gets slower with each key
		parts = 16
	}
	rooms := room.New(room.Config{
		Store: stores.db.Rooms(), Redis: ledger.New(stores.orders, cfg.keyPrefix(), parts), Vouchers: vouchers,
		Sales: sales{stores.db, gate}, Log: log,
	})
	registry.MustRegister(metrics.NewRooms(rooms.Figures))
	return rooms
}

// sales is what the waiting rooms need to know of the sale.
type sales struct {
	db   *database.DB
	gate *admission.Gate
}

// Left implements [room.Sales].
func (s sales) Left(ctx context.Context, v *voucher.Voucher) (int64, error) {
	if v.Policy.Flow == voucher.FlowAdmission {
		audit, err := s.gate.Audit(ctx, v.ID)
		return audit.Stock, err
	}
	now, err := s.db.Vouchers().Voucher(ctx, v.ID)
	if err != nil {
		return 0, err
	}
	return now.Stock, nil
}

// Ordered implements [room.Sales]. The gate is read first: an accepted order that it no longer has is in the database
// by then.
func (s sales) Ordered(ctx context.Context, v *voucher.Voucher, userID int64) (bool, error) {
	var all []order.Order
	if v.Policy.Flow == voucher.FlowAdmission {
		accepted, err := s.gate.OrdersOf(ctx, userID)
		if err != nil {
			return false, err
		}
		all = accepted
	}
	const page = 100
	for before := int64(math.MaxInt64); ; {
		stored, err := s.db.Orders().OrdersOf(ctx, userID, before, page)
		if err != nil {
			return false, err
		}
		for _, o := range append(all, stored...) {
			if o.VoucherID == v.ID && o.Status != order.Rejected {
				return true, nil
			}
		}
		if len(stored) < page {
			return false, nil
		}
		all, before = nil, stored[len(stored)-1].ID
	}
}
