package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestPercentileIsTheNearestRank(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1)*ms)
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		{hundred, 50, 50 * ms}, {hundred, 99, 99 * ms}, {hundred, 100, 100 * ms}, {hundred, 0, ms},
		{hundred[:1], 99, ms}, {hundred[:3], 50, 2 * ms}, {hundred[:2], 50, ms},
	} {
		if got := percentile(c.sorted, c.p); got != c.want {
			t.Errorf("p%d of %d values = %v, want %v", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestMeasurementSumsUpWorkers(t *testing.T) {
	var m measurement
	m.fill([]workerResult{
		{waits: []time.Duration{3 * ms, ms}, gaveUp: 2},
		{waits: []time.Duration{2 * ms, 4 * ms, 5 * ms}, violations: 1},
		{unfinished: 900 * ms},
	}, 2*time.Second)
	want := measurement{Grants: 5, PerSecond: 2.5, P50: 3 * ms, P99: 5 * ms, Max: 900 * ms, Most: 3, Starved: 1, GaveUp: 2, Violations: 1}
	if m != want {
		t.Errorf("got %+v, want %+v", m, want)
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for got, want := range map[string]string{
		thousands(7): "7", thousands(472.4): "472", thousands(53012): "53,012", thousands(1234567): "1,234,567",
		short(123456 * time.Nanosecond): "123 µs", short(1234 * time.Microsecond): "1.2 ms", short(858 * ms): "858 ms", short(12345 * ms): "12.3 s",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	rows := rowsFor(regexp.MustCompile(`^(one-key|alone)/(reentrant|redsync)$`))
	if len(rows) != 4 {
		t.Fatalf("%d rows match, want 4", len(rows))
	}
	for _, r := range rows[1:] { // the first was never measured
		r.rounds = []measurement{
			{PerSecond: 1000, P99: 20 * ms, Max: 30 * ms, Least: 10, Most: 20},
			{PerSecond: 3000, P99: 40 * ms, Max: 90 * ms, Least: 10, Most: 40, Starved: 2},
		}
		r.counted = &measurement{Sent: 2, Executed: 4.55}
	}
	var b bytes.Buffer
	if err := report(&b, options{rounds: 2, duration: time.Second}, "redis-server 7", rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| one-key | **reentrant** | 2,000 (1,000–3,000) | 0 µs | 30 ms (20 ms–40 ms) | 90 ms | 2.0 | 4.5 | 10, 30 (3.0×) | 2 | 0 | 0 |\n",
		"| alone | redsync | 2,000 (1,000–3,000) | 0 µs | 30 ms (20 ms–40 ms) | 90 ms | 2.0 | 4.5 | – | – | 0 | 0 |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &b)
		}
	}
	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, "|") && strings.Count(line, "|") != len(columns)+1 {
			t.Errorf("a line with another number of columns: %s", line)
		}
	}
	if strings.Contains(b.String(), "Incomplete") {
		t.Error("a table that is complete says that it is not")
	}
	if strings.Contains(b.String(), "alone | **reentrant**") {
		t.Error("a row that was never measured is in the table")
	}
	rows[3].counted = nil
	b.Reset()
	if err := report(&b, options{rounds: 2}, "redis-server 7", rows); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "Incomplete") {
		t.Error("a table without all its measurements does not say so")
	}
}
