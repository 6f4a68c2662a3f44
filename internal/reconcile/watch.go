package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// watchEvery is how often a process reconciles, one fifth more or less: processes that
	// started together do not all read at once.
	watchEvery = 30 * time.Second
	// watchFor is how long after its sale a voucher is still reconciled.
	watchFor = time.Hour
)

// Watch reconciles in the background. It sets metrics and logs each change once.
//
// To count a voucher's orders takes time in proportion to their number. So Watch counts them
// when a sale has come to rest, and again only after something was decided since. In between it
// relies on the database's stock.
type Watch struct {
	reconciler *Reconciler
	log        *slog.Logger
	metrics    watchMetrics

	counted    map[int64]int64 // by voucher: the seq at which the orders were counted and right
	unbalanced map[int64]int64 // by voucher: the imbalance that was logged
	failing    bool            // it was logged that the list of vouchers cannot be read
}

// watchMetrics do not have the voucher as a label: there is no bound to the number of vouchers.
type watchMetrics struct {
	vouchers    *prometheus.GaugeVec // by state
	drift, dead prometheus.Gauge
	last        prometheus.Gauge
}

// The values of the label state.
const (
	stateBalanced   = "balanced"
	stateUnbalanced = "unbalanced"
	stateUnknown    = "unknown"
)

// NewWatch returns a watch and registers its metrics.
func NewWatch(r *Reconciler, registry prometheus.Registerer, log *slog.Logger) (*Watch, error) {
	gauge := func(name, help string) prometheus.GaugeOpts { return prometheus.GaugeOpts{Name: name, Help: help} }
	m := watchMetrics{
		vouchers: prometheus.NewGaugeVec(gauge("seckill_reconcile_vouchers",
			"Vouchers on sale by admission, by whether Redis and the database agree."), []string{"state"}),
		drift: prometheus.NewGauge(gauge("seckill_reconcile_drift_orders",
			"By how many orders they disagree, of all vouchers.")),
		dead: prometheus.NewGauge(gauge("seckill_reconcile_dead_letters",
			"Dead letters that are kept of these vouchers.")),
		last: prometheus.NewGauge(gauge("seckill_reconcile_last_timestamp_seconds",
			"When that was last found out.")),
	}
	var failed error
	for _, c := range []prometheus.Collector{m.vouchers, m.drift, m.dead, m.last} {
		failed = errors.Join(failed, registry.Register(c))
	}
	for _, s := range []string{stateBalanced, stateUnbalanced, stateUnknown} {
		m.vouchers.WithLabelValues(s)
	}
	return &Watch{reconciler: r, log: log, counted: map[int64]int64{}, unbalanced: map[int64]int64{}, metrics: m}, failed
}

// Run reconciles until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for {
		select {
		case <-time.After(watchEvery*4/5 + rand.N(watchEvery*2/5)):
			w.Check(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Check reconciles once.
func (w *Watch) Check(ctx context.Context) {
	vouchers, err := w.reconciler.Vouchers.AdmissionVouchers(ctx, time.Now().Add(-watchFor))
	if err != nil {
		if !w.failing && ctx.Err() == nil {
			w.log.Warn("vouchers cannot be reconciled", "error", err)
		}
		w.failing = true
		return
	}
	w.failing = false
	found := w.reconciler.check(ctx, vouchers, w.mustCount)
	if ctx.Err() != nil {
		return // a check that was cut short proves nothing
	}
	w.note(found)
}

// mustCount reports whether a voucher's orders are to be counted.
func (w *Watch) mustCount(id int64, now buckets) bool {
	seq, counted := w.counted[id]
	_, wrong := w.unbalanced[id]
	return wrong || now.pending() == 0 && (!counted || seq != now.seq())
}

// note sets the metrics, logs what has changed, and remembers it.
func (w *Watch) note(found []Finding) {
	var drift, dead int64
	states := map[string]int{stateBalanced: 0, stateUnbalanced: 0, stateUnknown: 0}
	unbalanced, counted := map[int64]int64{}, map[int64]int64{}
	for _, f := range found {
		if f.Err != nil {
			states[stateUnknown]++
			continue
		}
		dead += f.after.dead()
		if f.Balanced() {
			states[stateBalanced]++
			if seq, was := w.counted[f.voucherID]; was {
				counted[f.voucherID] = seq
			}
			if f.audit != nil {
				counted[f.voucherID] = f.before.seq()
			}
		} else {
			states[stateUnbalanced]++
			unbalanced[f.voucherID] = f.imbalance()
			drift += f.imbalance()
		}
		w.logChange(f.Reading)
	}
	w.unbalanced, w.counted = unbalanced, counted
	for s, n := range states {
		w.metrics.vouchers.WithLabelValues(s).Set(float64(n))
	}
	w.metrics.drift.Set(float64(drift))
	w.metrics.dead.Set(float64(dead))
	w.metrics.last.SetToCurrentTime()
}

// logChange logs an imbalance that is new, has changed, or is over.
func (w *Watch) logChange(l Reading) {
	before, was := w.unbalanced[l.voucherID]
	switch {
	case !l.Balanced() && (!was || before != l.imbalance()):
		log := w.log.With("voucher", l.voucherID, "drift", l.drift(), "redis_behind", l.behind(), "database_behind", l.ahead(),
			"redis_stock", l.after.stock(), "pending", l.after.pending(), "database_stock", l.database.Stock)
		if l.audit != nil {
			log = log.With("confirmed", l.audit.Orders, "database_drift", l.audit.Drift())
		}
		log.Error("a voucher does not balance")
	case l.Balanced() && was:
		w.log.Info("a voucher balances again", "voucher", l.voucherID)
	}
}
