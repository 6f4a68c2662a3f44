package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/order"
	"seckill/internal/payment"
)

// Payment are the metrics of payments.
type Payment struct {
	events                    *prometheus.CounterVec // type, result
	settled, cents            *prometheus.CounterVec // outcome
	refunds, lookups          *prometheus.CounterVec // result
	unmatched, unmatchedCents prometheus.Gauge
	due                       prometheus.Gauge
}

var _ payment.Observer = (*Payment)(nil)

// NewPayment returns the metrics, with all their labels at 0.
func NewPayment() *Payment {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	p := &Payment{
		events:         counter("seckill_payment_events_total", "Webhooks of the payment provider, by what became of them.", "type", "result"),
		settled:        counter("seckill_payments_total", "Payments that were received, by what became of the money.", "outcome"),
		cents:          counter("seckill_payments_cents_total", "Cents that were received, by what became of the money.", "outcome"),
		refunds:        counter("seckill_payment_refunds_total", "Calls that give money back.", "result"),
		lookups:        counter("seckill_payment_lookups_total", "Calls that look a payment up, in case its webhook was lost.", "result"),
		unmatched:      gauge("seckill_payments_unmatched", "Payments in the database that belong to no order."),
		unmatchedCents: gauge("seckill_payments_unmatched_cents", "Cents in the database that belong to no order."),
		due:            gauge("seckill_payment_refunds_due", "Refunds that have failed at least once and are still due."),
	}
	for _, kind := range payment.EventKinds() {
		for _, result := range payment.EventResults() {
			p.events.WithLabelValues(kind, result)
		}
	}
	for _, outcome := range []order.Outcome{
		order.SettledPaid, order.SettledLate, order.LateUndecided, order.RefundWrongAmount, order.RefundNoStock, order.RefundOtherOrder,
		order.RefundNotPayable, order.Unmatched,
	} {
		p.settled.WithLabelValues(string(outcome))
		p.cents.WithLabelValues(string(outcome))
	}
	for _, calls := range []*prometheus.CounterVec{p.refunds, p.lookups} {
		calls.WithLabelValues("ok")
		calls.WithLabelValues("failed")
	}
	return p
}

// Register registers the metrics.
func (p *Payment) Register(reg prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{p.events, p.settled, p.cents, p.refunds, p.lookups, p.unmatched, p.unmatchedCents, p.due} {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// Event implements [payment.Observer].
func (p *Payment) Event(kind, result string) { p.events.WithLabelValues(kind, result).Inc() }

// Settled implements [payment.Observer].
func (p *Payment) Settled(outcome order.Outcome, cents int64) {
	p.settled.WithLabelValues(string(outcome)).Inc()
	p.cents.WithLabelValues(string(outcome)).Add(float64(cents))
}

// Refund implements [payment.Observer].
func (p *Payment) Refund(err error) { p.refunds.WithLabelValues(result(err)).Inc() }

// Lookup implements [payment.Observer].
func (p *Payment) Lookup(err error) { p.lookups.WithLabelValues(result(err)).Inc() }

// Unmatched implements [payment.Observer].
func (p *Payment) Unmatched(payments, cents int64) {
	p.unmatched.Set(float64(payments))
	p.unmatchedCents.Set(float64(cents))
}

// Due implements [payment.Observer].
func (p *Payment) Due(refunds int) { p.due.Set(float64(refunds)) }

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
