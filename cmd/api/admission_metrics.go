package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission"
	"seckill/internal/fulfil"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// admissionMetrics are what the flow admission reports of itself.
type admissionMetrics struct {
	decisions []decision
	queue     prometheus.Histogram

	callOrders, call           prometheus.Histogram
	callFailed, opened, closed prometheus.Counter
	draws, drawn               prometheus.Counter

	batchOrders, batch, delay prometheus.Histogram
	batchFailed, claimed      prometheus.Counter
	dead                      *prometheus.CounterVec
	backlog, oldest           prometheus.Gauge
}

// decision counts the decisions that an error stands for.
type decision struct {
	err   error
	count prometheus.Counter
}

func observeAdmission(registry prometheus.Registerer) (*admissionMetrics, error) {
	r := &registering{registry: registry}
	durations := prometheus.ExponentialBuckets(0.0001, 2, 18) // 0.1 ms to 13 s
	sizes := prometheus.ExponentialBuckets(1, 2, 12)          // 1 to 2048
	m := &admissionMetrics{
		queue:      r.histogram("seckill_admission_queue_seconds", "Time that the oldest order of a batch had waited when the batch was taken up.", durations),
		callOrders: r.histogram("seckill_admission_call_orders", "Orders that one call of Redis decided about.", sizes),
		call:       r.histogram("seckill_admission_call_seconds", "Time of one call of Redis.", durations),
		callFailed: r.counter("seckill_admission_calls_failed_total", "Calls of Redis that ended with an error."),
		opened:     r.counter("seckill_admission_opened_total", "Vouchers that this process found or made open."),
		closed:     r.counter("seckill_admission_closed_total", "Vouchers that this process found closed, or Redis behind."),
		draws:      r.counter("seckill_admission_draws_total", "Times that an empty bucket of a voucher drew stock from another one."),
		drawn:      r.counter("seckill_admission_drawn_orders_total", "The stock that was drawn so."),

		batchOrders: r.histogram("seckill_fulfil_batch_orders", "Orders offered to the database in one transaction.", sizes),
		batch:       r.histogram("seckill_fulfil_batch_seconds", "Time of one such transaction.", durations),
		batchFailed: r.counter("seckill_fulfil_batches_failed_total", "Such transactions that ended with an error."),
		delay:       r.histogram("seckill_fulfil_delay_seconds", "Time from an order's acceptance to its confirmation.", durations),
		claimed:     r.counter("seckill_fulfil_claimed_total", "Orders taken over from a consumer that had them for too long."),
		dead:        r.counters("seckill_fulfil_dead_letters_total", "Accepted orders that were rejected, by reason.", "reason"),
		backlog:     r.gauge("seckill_fulfil_backlog_orders", "Orders that are accepted and not persisted, of all vouchers."),
		oldest:      r.gauge("seckill_fulfil_backlog_oldest_seconds", "How long the oldest of them has been so."),
	}
	decisions := r.counters("seckill_admission_decisions_total", "Orders that the gate was asked about, by what became of them.", "outcome")
	for _, d := range []struct {
		outcome string
		err     error
	}{
		{"accepted", nil}, {"sold_out", voucher.ErrSoldOut}, {"already_ordered", order.ErrAlreadyOrdered},
		{"sale_not_started", voucher.ErrNotStarted}, {"sale_ended", voucher.ErrEnded},
		{"overloaded", order.ErrOverloaded}, {"unavailable", order.ErrUnavailable},
		{"gave_up", context.Canceled}, {"gave_up", context.DeadlineExceeded},
	} {
		m.decisions = append(m.decisions, decision{d.err, decisions.WithLabelValues(d.outcome)})
	}
	// All reasons are there from the start: an increase from nothing is none to Prometheus.
	for _, reason := range []fulfil.Reason{
		fulfil.Malformed, fulfil.AlreadyOrdered, fulfil.SoldOut, fulfil.StaleEpoch, fulfil.IDTaken,
		fulfil.NoVoucher, fulfil.Failed, fulfil.Deadly, fulfil.Before,
	} {
		m.dead.WithLabelValues(string(reason))
	}
	return m, errors.Join(r.errs...)
}

// gate is the gate's observer.
func (m *admissionMetrics) gate() admission.Observer {
	return admission.Observer{
		Decided: func(err error) {
			for _, d := range m.decisions {
				if errors.Is(err, d.err) {
					d.count.Inc()
					return
				}
			}
		},
		Batch: func(orders int, took time.Duration, err error) {
			m.callOrders.Observe(float64(orders))
			m.call.Observe(took.Seconds())
			if err != nil {
				m.callFailed.Inc()
			}
		},
		Queued: func(waited time.Duration) { m.queue.Observe(waited.Seconds()) },
		Drawn: func(stock int64) {
			m.draws.Inc()
			m.drawn.Add(float64(stock))
		},
		Opened: func(time.Duration, int64) { m.opened.Inc() },
		Closed: func(error) { m.closed.Inc() },
	}
}

// fulfiller is the observer of those who persist.
func (m *admissionMetrics) fulfiller() fulfil.Observer {
	return fulfil.Observer{
		Batch: func(size int, took time.Duration, err error) {
			m.batchOrders.Observe(float64(size))
			m.batch.Observe(took.Seconds())
			if err != nil {
				m.batchFailed.Inc()
			}
		},
		Persisted:  func(after time.Duration) { m.delay.Observe(after.Seconds()) },
		DeadLetter: func(reason fulfil.Reason) { m.dead.WithLabelValues(string(reason)).Inc() },
		Claimed:    func(n int) { m.claimed.Add(float64(n)) },
		Backlog: func(entries int64, oldest time.Duration) {
			m.backlog.Set(float64(entries))
			m.oldest.Set(oldest.Seconds())
		},
	}
}

// registering makes metrics and registers them, and keeps what went wrong for the end.
type registering struct {
	registry prometheus.Registerer
	errs     []error
}

func (r *registering) add(c prometheus.Collector) { r.errs = append(r.errs, r.registry.Register(c)) }

func (r *registering) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	r.add(h)
	return h
}

func (r *registering) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.add(c)
	return c
}

func (r *registering) counters(name, help, label string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	r.add(c)
	return c
}

func (r *registering) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.add(g)
	return g
}

func (r *registering) gauges(name, help, label string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	r.add(g)
	return g
}
