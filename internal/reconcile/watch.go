package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission/contract"
)

const (
	// watchEvery is how often a process reconciles, one fifth more or less: processes that started together do not all
	// read at once.
	watchEvery = 30 * time.Second
	// watchFor is how long after its sale a voucher is still reconciled.
	watchFor = time.Hour
	// watchAtOnce is how many vouchers are reconciled each time. Those that did not balance come first, and the others
	// take turns: what it costs to watch must not grow with the number of vouchers that nobody buys.
	watchAtOnce = 200
)

// Watch reconciles in the background. It sets metrics and logs each change once.
//
// To count a voucher's orders takes time in proportion to their number. So Watch counts them when a sale has come to
// rest, and again only after something was decided since. In between it relies on the database's stock.
type Watch struct {
	reconciler *Reconciler
	log        *slog.Logger
	metrics    watchMetrics

	latest     map[int64]judgement
	counted    map[int64]int64 // by voucher: the seq at which the orders were counted and right
	unbalanced map[int64]int64 // by voucher: the imbalance that was logged
	failing    bool            // it was logged that the list of vouchers cannot be read
}

// judgement is what was last found out about a voucher.
type judgement struct {
	state                   string // one of the values of the label state
	at                      time.Time
	drift, unsellable, dead int64
}

// watchMetrics do not have the voucher as a label: there is no bound to the number of vouchers.
type watchMetrics struct {
	vouchers                *prometheus.GaugeVec // by state
	drift, unsellable, dead prometheus.Gauge
	last                    prometheus.Gauge
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
		unsellable: prometheus.NewGauge(gauge("seckill_reconcile_unsellable_stock",
			"Stock in the database that nobody can buy, of all vouchers: it was raised there by hand, or Redis has lost some.")),
		dead: prometheus.NewGauge(gauge("seckill_reconcile_dead_letters",
			"Dead letters that are kept of these vouchers.")),
		last: prometheus.NewGauge(gauge("seckill_reconcile_last_timestamp_seconds",
			"When that was last found out.")),
	}
	var failed error
	for _, c := range []prometheus.Collector{m.vouchers, m.drift, m.unsellable, m.dead, m.last} {
		failed = errors.Join(failed, registry.Register(c))
	}
	for _, s := range []string{stateBalanced, stateUnbalanced, stateUnknown} {
		m.vouchers.WithLabelValues(s)
	}
	return &Watch{reconciler: r, log: log, latest: map[int64]judgement{}, counted: map[int64]int64{}, unbalanced: map[int64]int64{}, metrics: m}, failed
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
	w.forgetOthers(vouchers)
	found := w.reconciler.check(ctx, w.due(vouchers), w.mustCount)
	if ctx.Err() != nil {
		return // a check that was cut short proves nothing
	}
	for _, f := range found {
		w.note(f)
	}
	w.publish()
}

// due returns the vouchers whose turn it is.
func (w *Watch) due(vouchers []contract.AdmissionVoucher) []contract.AdmissionVoucher {
	slices.SortStableFunc(vouchers, func(a, b contract.AdmissionVoucher) int {
		before, after := w.latest[a.VoucherID], w.latest[b.VoucherID]
		if wrong, other := before.state == stateUnbalanced, after.state == stateUnbalanced; wrong != other {
			if wrong {
				return -1
			}
			return 1
		}
		return before.at.Compare(after.at)
	})
	return vouchers[:min(len(vouchers), watchAtOnce)]
}

// forgetOthers drops what is known of vouchers that are not listed any more.
func (w *Watch) forgetOthers(vouchers []contract.AdmissionVoucher) {
	listed := make(map[int64]bool, len(vouchers))
	for _, v := range vouchers {
		listed[v.VoucherID] = true
	}
	maps.DeleteFunc(w.latest, func(id int64, _ judgement) bool { return !listed[id] })
	maps.DeleteFunc(w.counted, func(id, _ int64) bool { return !listed[id] })
	maps.DeleteFunc(w.unbalanced, func(id, _ int64) bool { return !listed[id] })
}

// mustCount reports whether a voucher's orders are to be counted.
func (w *Watch) mustCount(id int64, now buckets) bool {
	seq, counted := w.counted[id]
	_, wrong := w.unbalanced[id]
	return wrong || now.pending() == 0 && (!counted || seq != now.seq())
}

// note logs what has changed about a voucher, and remembers it.
func (w *Watch) note(f Checked) {
	id, now := f.voucherID, judgement{at: time.Now()}
	switch {
	case f.Err != nil:
		now.state = stateUnknown
		delete(w.counted, id)
		delete(w.unbalanced, id)
	case f.Balanced():
		now.state, now.dead = stateBalanced, f.after.dead()
		w.logChange(f.Reading)
		if f.audit != nil {
			w.counted[id] = f.before.seq()
		}
		delete(w.unbalanced, id)
	default:
		now.state, now.dead, now.drift, now.unsellable = stateUnbalanced, f.after.dead(), f.imbalance(), f.unsellable()
		w.logChange(f.Reading)
		delete(w.counted, id)
		w.unbalanced[id] = f.imbalance()
	}
	w.latest[id] = now
}

// publish sets the metrics.
func (w *Watch) publish() {
	var drift, unsellable, dead int64
	states := map[string]int{stateBalanced: 0, stateUnbalanced: 0, stateUnknown: 0}
	for _, l := range w.latest {
		states[l.state]++
		drift += l.drift
		unsellable += l.unsellable
		dead += l.dead
	}
	for s, n := range states {
		w.metrics.vouchers.WithLabelValues(s).Set(float64(n))
	}
	w.metrics.drift.Set(float64(drift))
	w.metrics.unsellable.Set(float64(unsellable))
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
		if n := l.unsellable(); n > 0 {
			log = log.With("unsellable", n, "to_sell_it", TakeOver)
		}
		log.Error("a voucher does not balance")
	case l.Balanced() && was:
		w.log.Info("a voucher balances again", "voucher", l.voucherID)
	}
}
