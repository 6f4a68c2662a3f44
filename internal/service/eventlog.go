package service

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"seckill/internal/eventlog"
	"seckill/internal/httpapi"
	"seckill/internal/order"
)

// eventLog records the locks and transactions of this process for the laboratory. The zero value records nothing and
// wraps nothing.
type eventLog struct{ *eventlog.Recorder }

func openEventLog(cfg Config) (eventLog, error) {
	if cfg.LabTrace == "" {
		return eventLog{}, nil
	}
	rec, err := eventlog.Open(cfg.LabTrace, cmp.Or(cfg.LabName, fmt.Sprintf("api-%d", os.Getpid())))
	if err != nil {
		return eventLog{}, fmt.Errorf("SECKILL_LAB_TRACE: %w", err)
	}
	return eventLog{rec}, nil
}

func (l eventLog) store(s order.Store) order.Store {
	if l.Recorder == nil {
		return s
	}
	return eventlog.Store(s, l.Recorder)
}

func (l eventLog) orders(s *order.Service) httpapi.Orders {
	if l.Recorder == nil {
		return s
	}
	return recordedOrders{s, eventlog.Orders(s, l.Recorder)}
}

// recordedOrders is the order service with a Place that records its orders.
type recordedOrders struct {
	*order.Service
	recorded eventlog.OrderService
}

// Place implements [httpapi.Orders].
func (o recordedOrders) Place(ctx context.Context, req order.Request) (order.Order, error) {
	return o.recorded.Place(ctx, req)
}

func (l eventLog) close() error {
	if l.Recorder == nil {
		return nil
	}
	return l.Close()
}
