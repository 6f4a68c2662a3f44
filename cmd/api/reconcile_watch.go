package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reconcileEvery is how often a process reconciles, one fifth more or less: processes
// that started together do not all ask at once.
const reconcileEvery = 30 * time.Second

// reconciledFor is for how long after a sale its voucher is still reconciled.
const reconciledFor = time.Hour

// reconcileWatch reconciles in the background: it sets metrics, and says once what has
// changed.
//
// To count a voucher's orders takes as long as there are many. So they are counted when
// a sale has come to rest, and again only after it has moved; in between the stock that
// the database has is taken for right.
type reconcileWatch struct {
	*reconciler
	log     *slog.Logger
	metrics reconcileMetrics

	counted map[int64]int64 // by voucher: at which seq the orders were counted and right
	missing map[int64]int64 // by voucher: the imbalance that was logged
	failing bool            // that the list of vouchers cannot be had was logged
}

// reconcileMetrics have no voucher as a label: there is no end to those.
type reconcileMetrics struct {
	vouchers    *prometheus.GaugeVec // state
	drift, dead prometheus.Gauge
	last        prometheus.Gauge
}

// What a voucher is counted as.
const (
	countedBalanced   = "balanced"
	countedUnbalanced = "unbalanced"
	countedUnknown    = "unknown"
)

func newReconcileWatch(r *reconciler, registry prometheus.Registerer, log *slog.Logger) (*reconcileWatch, error) {
	reg := &registering{registry: registry}
	w := &reconcileWatch{reconciler: r, log: log, counted: map[int64]int64{}, missing: map[int64]int64{}, metrics: reconcileMetrics{
		vouchers: reg.gauges("seckill_reconcile_vouchers", "Vouchers on sale by admission, by whether Redis and the database agree.", "state"),
		drift:    reg.gauge("seckill_reconcile_drift_orders", "By how many orders they disagree, of all vouchers."),
		dead:     reg.gauge("seckill_reconcile_dead_letters", "Dead letters that are kept of these vouchers."),
		last:     reg.gauge("seckill_reconcile_last_timestamp_seconds", "When that was last found out."),
	}}
	for _, s := range []string{countedBalanced, countedUnbalanced, countedUnknown} {
		w.metrics.vouchers.WithLabelValues(s)
	}
	return w, errors.Join(reg.errs...)
}

// run reconciles until ctx ends.
func (w *reconcileWatch) run(ctx context.Context) {
	for {
		select {
		case <-time.After(reconcileEvery*4/5 + rand.N(reconcileEvery*2/5)):
			w.check(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// check reconciles once.
func (w *reconcileWatch) check(ctx context.Context) {
	sales, err := w.shelf.AdmissionSales(ctx, time.Now().Add(-reconciledFor))
	if err != nil {
		if !w.failing && ctx.Err() == nil {
			w.log.Warn("vouchers cannot be reconciled", "error", err)
		}
		w.failing = true
		return
	}
	w.failing = false
	found := w.settle(ctx, sales, func(id int64, now standingInRedis) bool {
		seq, counted := w.counted[id]
		_, wrong := w.missing[id]
		return wrong || now.pending() == 0 && (!counted || seq != now.seq())
	})
	if ctx.Err() != nil {
		return // what was cut short says nothing
	}
	var drift, dead int64
	states := map[string]int{countedBalanced: 0, countedUnbalanced: 0, countedUnknown: 0}
	missing, counted := map[int64]int64{}, map[int64]int64{}
	for _, f := range found {
		if f.err != nil {
			states[countedUnknown]++
			continue
		}
		dead += f.after.dead()
		if f.balanced() {
			states[countedBalanced]++
			if seq, was := w.counted[f.voucher]; was {
				counted[f.voucher] = seq
			}
			if f.audit != nil {
				counted[f.voucher] = f.before.seq()
			}
		} else {
			states[countedUnbalanced]++
			missing[f.voucher] = f.missing()
			drift += f.missing()
		}
		w.tell(f.look)
	}
	w.missing, w.counted = missing, counted
	for s, n := range states {
		w.metrics.vouchers.WithLabelValues(s).Set(float64(n))
	}
	w.metrics.drift.Set(float64(drift))
	w.metrics.dead.Set(float64(dead))
	w.metrics.last.SetToCurrentTime()
}

// tell logs a voucher's imbalance when it comes, changes and goes.
func (w *reconcileWatch) tell(l look) {
	before, was := w.missing[l.voucher]
	switch {
	case !l.balanced() && (!was || before != l.missing()):
		log := w.log.With("voucher", l.voucher, "drift", l.drift(), "redis_behind", l.behind(),
			"redis_stock", l.after.stock(), "pending", l.after.pending(), "database_stock", l.database.Stock)
		if l.audit != nil {
			log = log.With("confirmed", l.audit.Orders, "database_drift", l.audit.Drift())
		}
		log.Error("a voucher does not balance")
	case l.balanced() && was:
		w.log.Info("a voucher balances again", "voucher", l.voucher)
	}
}
