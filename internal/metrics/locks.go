package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/lock"
)

// Locks are the metrics of the lock mechanisms.
type Locks struct {
	wait, hold    *prometheus.HistogramVec
	refused, lost *prometheus.CounterVec
}

// NewLocks registers the metrics of the lock mechanisms.
func NewLocks(registry prometheus.Registerer) (*Locks, error) {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 16) // 0.5 ms to 16 s
	m := &Locks{
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "seckill_lock_wait_seconds", Help: "Time from asking for a lock to acquiring it.", Buckets: buckets,
		}, []string{"lock"}),
		hold: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "seckill_lock_hold_seconds", Help: "Time from acquiring a lock to releasing it.", Buckets: buckets,
		}, []string{"lock"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_lock_refused_total", Help: "Acquisitions that failed, by reason.",
		}, []string{"lock", "reason"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "seckill_lock_lost_total", Help: "Leases that ended before their release, by reason.",
		}, []string{"lock", "reason"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.wait, m.hold, m.refused, m.lost} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

// Observer returns the observer of one mechanism, with the label values resolved beforehand.
func (m *Locks) Observer(mechanism string) lock.Observer {
	wait, hold := m.wait.WithLabelValues(mechanism), m.hold.WithLabelValues(mechanism)
	for _, why := range []string{"unavailable", "expired", "taken", "other"} {
		m.lost.WithLabelValues(mechanism, why) // from 0 on: an alert sees a counter's increase, not its first value
	}
	return lock.Observer{
		Acquired: func(waited time.Duration) { wait.Observe(waited.Seconds()) },
		Released: func(held time.Duration, _ error) { hold.Observe(held.Seconds()) },
		Refused: func(_ time.Duration, err error) {
			m.refused.WithLabelValues(mechanism, reason(err)).Inc()
		},
		Lost: func(cause error) { m.lost.WithLabelValues(mechanism, reason(cause)).Inc() },
	}
}

// reason is the label value of an error, from a closed list.
func reason(err error) string {
	switch {
	case errors.Is(err, lock.ErrNotAcquired):
		return "held"
	case errors.Is(err, lock.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, lock.ErrExpired):
		return "expired"
	case errors.Is(err, lock.ErrLost):
		return "taken"
	}
	return "other"
}
