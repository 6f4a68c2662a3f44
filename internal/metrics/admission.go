// Package metrics reports to Prometheus what locks, admission and fulfilment observe. Label values come from closed
// lists.
package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission"
	"seckill/internal/database"
	"seckill/internal/fulfil"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Admission are the metrics of the admission flow.
type Admission struct {
	decisions []decision
	queue     prometheus.Histogram

	callOrders, call           prometheus.Histogram
	callFailed, opened, closed prometheus.Counter
	draws, drawn               prometheus.Counter
	forgotten                  prometheus.Counter
	kept                       prometheus.Gauge

	batchOrders, batch, delay prometheus.Histogram
	batchFailed, claimed      prometheus.Counter
	dead                      *prometheus.CounterVec
	backlog, oldest           prometheus.Gauge
	outages                   *prometheus.CounterVec
	blockedSince              *prometheus.GaugeVec
	aside                     prometheus.Gauge
}

// decision counts the decisions that ended with an error.
type decision struct {
	err   error
	count prometheus.Counter
}

// NewAdmission registers the metrics of the admission flow.
func NewAdmission(registry prometheus.Registerer) (*Admission, error) {
	r := &registerer{registry: registry}
	durations := prometheus.ExponentialBuckets(0.0001, 2, 18) // 0.1 ms to 13 s
	sizes := prometheus.ExponentialBuckets(1, 2, 12)          // 1 to 2048
	m := &Admission{
		queue:      r.histogram("seckill_admission_queue_seconds", "Time that the oldest order of a batch had waited when the batch was taken up.", durations),
		callOrders: r.histogram("seckill_admission_call_orders", "Orders that one call of Redis decided about.", sizes),
		call:       r.histogram("seckill_admission_call_seconds", "Time of one call of Redis.", durations),
		callFailed: r.counter("seckill_admission_calls_failed_total", "Calls of Redis that ended with an error."),
		opened:     r.counter("seckill_admission_opened_total", "Vouchers that this process found or made open."),
		closed:     r.counter("seckill_admission_closed_total", "Vouchers that this process found closed, or Redis behind."),
		draws:      r.counter("seckill_admission_draws_total", "Times that an empty bucket of a voucher drew stock from another one."),
		drawn:      r.counter("seckill_admission_drawn_orders_total", "The stock that was drawn so."),
		forgotten:  r.counter("seckill_admission_forgotten_total", "Vouchers that this process marked as forgotten, some time after their sale."),
		kept:       r.gauge("seckill_admission_kept_vouchers", "Vouchers that are due to be forgotten and are kept, because they do not balance."),

		batchOrders: r.histogram("seckill_fulfil_batch_orders", "Orders offered to the database in one transaction.", sizes),
		batch:       r.histogram("seckill_fulfil_batch_seconds", "Time of one such transaction.", durations),
		batchFailed: r.counter("seckill_fulfil_batches_failed_total", "Such transactions that ended with an error."),
		delay:       r.histogram("seckill_fulfil_delay_seconds", "Time from an order's acceptance to its confirmation.", durations),
		claimed:     r.counter("seckill_fulfil_claimed_total", "Orders taken over from a consumer that had them for too long."),
		dead:        r.counters("seckill_fulfil_dead_letters_total", "Accepted orders that were rejected, by reason.", "reason"),
		backlog:     r.gauge("seckill_fulfil_backlog_orders", "Orders that are accepted and not persisted, of all vouchers."),
		oldest:      r.gauge("seckill_fulfil_backlog_oldest_seconds", "How long the oldest of them has been so."),

		outages:      r.counters("seckill_fulfil_outages_total", "Times that the database began to take no orders, by reason.", "reason"),
		blockedSince: r.gauges("seckill_fulfil_blocked_since_timestamp_seconds", "Unix time since when the database takes no orders, by the latest reason; 0 where it does.", "reason"),
		aside:        r.gauge("seckill_fulfil_set_aside_orders", "Accepted orders that fail by themselves, and are tried again alone."),
	}
	decisions := r.counters("seckill_admission_decisions_total", "Orders that the gate was asked about, by what became of them.", "outcome")
	for _, d := range []struct {
		outcome string
		err     error
	}{
		{"accepted", nil}, {"sold_out", voucher.ErrSoldOut}, {"already_ordered", order.ErrAlreadyOrdered},
		{"sale_not_started", voucher.ErrNotStarted}, {"sale_ended", voucher.ErrEnded}, {"sale_paused", voucher.ErrPaused},
		{"overloaded", order.ErrOverloaded}, {"unavailable", order.ErrUnavailable},
		{"gave_up", context.Canceled}, {"gave_up", context.DeadlineExceeded},
	} {
		m.decisions = append(m.decisions, decision{d.err, decisions.WithLabelValues(d.outcome)})
	}
	// All series exist from the start: Prometheus sees no increase in a series that is new.
	for _, reason := range []fulfil.Reason{
		fulfil.Malformed, fulfil.AlreadyOrdered, fulfil.SoldOut, fulfil.StaleEpoch, fulfil.FutureEpoch, fulfil.IDTaken,
		fulfil.Failed, fulfil.Deadly, fulfil.Before,
	} {
		m.dead.WithLabelValues(string(reason))
	}
	for _, reason := range database.ErrorClasses() {
		m.outages.WithLabelValues(string(reason))
		m.blockedSince.WithLabelValues(string(reason))
	}
	return m, errors.Join(r.errs...)
}

// Gate returns the observer of the gate.
func (m *Admission) Gate() admission.Observer {
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
		Rebalanced: func(stock int64) {
			m.draws.Inc()
			m.drawn.Add(float64(stock))
		},
		Opened: func(time.Duration, int64) { m.opened.Inc() },
		Closed: func(error) { m.closed.Inc() },
	}
}

// Forgetting adds the observers of forgotten vouchers to c.
func (m *Admission) Forgetting(c admission.ForgetConfig) admission.ForgetConfig {
	c.Forgotten, c.Kept = m.forgotten.Inc, func(vouchers int) { m.kept.Set(float64(vouchers)) }
	return c
}

// Fulfiller returns the observer of the workers that persist orders.
func (m *Admission) Fulfiller() fulfil.Observer {
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
		Outage:     m.outage(),
		RetryQueue: func(entries int64) { m.aside.Set(float64(entries)) },
	}
}

// outage returns the observer of outages. The reason of an outage may change while it lasts.
func (m *Admission) outage() func(since time.Time, err error) {
	var mu sync.Mutex
	var current database.ErrorClass // "" without an outage
	return func(since time.Time, err error) {
		mu.Lock()
		defer mu.Unlock()
		reason := database.ClassOf(err)
		if current != "" && current != reason {
			m.blockedSince.WithLabelValues(string(current)).Set(0)
		}
		if reason != "" {
			m.blockedSince.WithLabelValues(string(reason)).Set(float64(since.UnixMilli()) / 1000)
		}
		if reason != "" && current == "" {
			m.outages.WithLabelValues(string(reason)).Inc()
		}
		current = reason
	}
}

// registerer creates metrics, registers them and collects the errors.
type registerer struct {
	registry prometheus.Registerer
	errs     []error
}

func (r *registerer) add(c prometheus.Collector) { r.errs = append(r.errs, r.registry.Register(c)) }

func (r *registerer) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	r.add(h)
	return h
}

func (r *registerer) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.add(c)
	return c
}

func (r *registerer) counters(name, help, label string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	r.add(c)
	return c
}

func (r *registerer) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.add(g)
	return g
}

func (r *registerer) gauges(name, help, label string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{label})
	r.add(g)
	return g
}
