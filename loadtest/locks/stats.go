package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// measurement is the result of one round.
type measurement struct {
	Grants    int     `json:"grants"`
	PerSecond float64 `json:"per_second"`

	// Waits, from asking for the lock to having it. Those that the end of the measurement cut short count in Max alone.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`

	// Grants per goroutine, and how many goroutines had none.
	Least   int `json:"least"`
	Most    int `json:"most"`
	Starved int `json:"starved"`

	GaveUp     int `json:"gave_up"`    // waits that the library ended by a limit of its own
	Violations int `json:"violations"` // grants while another goroutine held the key

	// Commands per grant: what the clients sent, and what the server executed, commands called by scripts included.
	// Only where commands are counted.
	Sent     float64 `json:"sent_per_grant,omitempty"`
	Executed float64 `json:"executed_per_grant,omitempty"`
}

// fill sums the results of the workers.
func (m *measurement) fill(tallies []workerResult, duration time.Duration) {
	var waits []time.Duration
	for i, t := range tallies {
		n := len(t.waits)
		waits = append(waits, t.waits...)
		m.Max = max(m.Max, t.unfinished)
		m.GaveUp += t.gaveUp
		m.Violations += t.violations
		m.Most = max(m.Most, n)
		if i == 0 || n < m.Least {
			m.Least = n
		}
		if n == 0 {
			m.Starved++
		}
	}
	slices.Sort(waits)
	m.Grants = len(waits)
	m.PerSecond = float64(len(waits)) / duration.Seconds()
	if len(waits) > 0 {
		m.P50, m.P99 = percentile(waits, 50), percentile(waits, 99)
		m.Max = max(m.Max, waits[len(waits)-1])
	}
}

// String formats the measurement for the progress output.
func (m *measurement) String() string {
	text := fmt.Sprintf("%s/s, p99 %s", thousands(m.PerSecond), short(m.P99))
	if m.Sent > 0 {
		text += fmt.Sprintf(", %.1f commands sent per grant", m.Sent)
	}
	if m.Violations > 0 {
		text += fmt.Sprintf(", TWO HOLDERS %d times", m.Violations)
	}
	return text
}

// percentile is the smallest value that is not less than p % of all (nearest rank).
func percentile(sorted []time.Duration, p int) time.Duration {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// spread is a median with its range. With an even number of values the median is the mean of the middle two.
type spread[T cmp.Ordered] struct{ median, least, most T }

func spreadOf[T int | float64 | time.Duration](rounds []measurement, of func(measurement) T) spread[T] {
	values := make([]T, len(rounds))
	for i, m := range rounds {
		values[i] = of(m)
	}
	slices.Sort(values)
	n := len(values)
	return spread[T]{median: (values[(n-1)/2] + values[n/2]) / 2, least: values[0], most: values[n-1]}
}
