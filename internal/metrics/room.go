package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/room"
)

// Rooms are the metrics of the waiting rooms that this instance has open. What is counted is the same at every
// instance, so a dashboard takes the largest.
type Rooms struct {
	figures func(most int) []room.Figures
	gauges  []roomGauge
	passes  *prometheus.Desc
}

type roomGauge struct {
	desc  *prometheus.Desc
	value func(room.Figures) float64
}

// maxRooms bounds the rooms with metrics: the fullest.
const maxRooms = 20

var _ prometheus.Collector = (*Rooms)(nil)

// NewRooms returns the metrics of the rooms that figures returns.
func NewRooms(figures func(most int) []room.Figures) *Rooms {
	byVoucher := []string{"voucher"}
	gauge := func(name, help string, value func(room.Figures) float64) roomGauge {
		return roomGauge{prometheus.NewDesc(name, help, byVoucher, nil), value}
	}
	return &Rooms{
		figures: figures,
		gauges: []roomGauge{
			gauge("seckill_room_tickets", "Tickets that a waiting room has given.", func(f room.Figures) float64 { return float64(f.Tickets) }),
			gauge("seckill_room_waiting", "Visitors who are not called yet, and may have left.", func(f room.Figures) float64 { return float64(f.Waiting) }),
			gauge("seckill_room_serving", "Up to which position visitors are called.", func(f room.Figures) float64 { return float64(f.Serving) }),
			gauge("seckill_room_backlog", "Visitors who are called and wait for the rate or a unit.", func(f room.Figures) float64 { return float64(f.Backlog) }),
			gauge("seckill_room_units_left", "The stock as the waiting room knows it.", func(f room.Figures) float64 { return float64(f.UnitsLeft) }),
			gauge("seckill_room_rate", "How many passes a second the waiting room may issue.", func(f room.Figures) float64 { return float64(f.Rate) }),
			gauge("seckill_room_calling", "1 while visitors are called: the sale has begun, is not paused and not over.", func(f room.Figures) float64 {
				if f.Calling {
					return 1
				}
				return 0
			}),
		},
		passes: prometheus.NewDesc("seckill_room_passes_total", "Passes since Redis has the room, by what became of them: issued, and then spent or lapsed.", []string{"voucher", "state"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *Rooms) Describe(to chan<- *prometheus.Desc) {
	for _, g := range m.gauges {
		to <- g.desc
	}
	to <- m.passes
}

// Collect implements [prometheus.Collector].
func (m *Rooms) Collect(to chan<- prometheus.Metric) {
	for _, f := range m.figures(maxRooms) {
		id := strconv.FormatInt(f.VoucherID, 10)
		for _, g := range m.gauges {
			to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(f), id)
		}
		for state, n := range map[string]int64{"issued": f.Issued, "spent": f.Spent, "lapsed": f.Lapsed} {
			to <- prometheus.MustNewConstMetric(m.passes, prometheus.CounterValue, float64(n), id, state)
		}
	}
}
