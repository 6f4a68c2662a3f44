package main

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/trace"
)

// tracing is what the laboratory has recorded of this process: nothing, unless it
// asked for it.
type tracing struct{ *trace.Recorder }

func openTrace(cfg config) (tracing, error) {
	if cfg.LabTrace == "" {
		return tracing{}, nil
	}
	rec, err := trace.Open(cfg.LabTrace, cmp.Or(cfg.LabName, fmt.Sprintf("api-%d", os.Getpid())))
	if err != nil {
		return tracing{}, fmt.Errorf("SECKILL_LAB_TRACE: %w", err)
	}
	return tracing{rec}, nil
}

func (t tracing) store(s order.Store) order.Store {
	if t.Recorder == nil {
		return s
	}
	return trace.Store(s, t.Recorder)
}

func (t tracing) orders(s *order.Service) httpapi.Orders {
	if t.Recorder == nil {
		return s
	}
	return tracedOrders{s, trace.Orders(s, t.Recorder)}
}

// tracedOrders is the service, whose orders are recorded.
type tracedOrders struct {
	*order.Service
	recorded trace.OrderService
}

// Place implements [httpapi.Orders].
func (t tracedOrders) Place(ctx context.Context, req order.Request) (order.Order, error) {
	return t.recorded.Place(ctx, req)
}

func (t tracing) close() error {
	if t.Recorder == nil {
		return nil
	}
	return t.Close()
}
