package loadtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"seckill/internal/testkit/fail"
)

// accepted measures admission alone.
func (s *benchService) accepted(b *testing.B) row {
	v := s.sell(b, plenty)
	var t turns
	s.withoutPersisting(b, func() {
		t = s.besideBare(b, func() load { return v.rush(b) }, s.bare)
	}, v)
	s.acceptedRate = median(t.mine)
	return t.row("accepted, admission alone", "bare gin", target{0.65, 0.60},
		"Redis refuses the consumers XREADGROUP, what is accepted is trimmed.")
}

// persisted counts an order when it is in the database, acknowledged, and deleted from Redis' stream. The clock runs
// until the last one is.
func (s *benchService) persisted(b *testing.B) row {
	v := s.sell(b, plenty)
	t := s.besideBare(b, func() load {
		begun := time.Now()
		sold := v.rush(b)
		v.drained(b)
		sold.perSecond = float64(sold.requests) / time.Since(begun).Seconds()
		return sold
	}, s.bare)
	s.persistedRate = median(t.mine)
	return t.row("accepted and persisted", "bare gin", target{median: 0.40},
		"The clock runs until the last one is in MariaDB and acknowledged.")
}

// soldOut measures the answer of all buyers but the first few.
func (s *benchService) soldOut(b *testing.B) row {
	v := s.sell(b, 1)
	s.api.answer(b, v.url, s.user, http.StatusAccepted, "pending")
	s.user++
	body := s.api.answer(b, v.url, s.user, http.StatusConflict, "sold_out")
	t := s.besideBare(b, s.bareRush(b, v.url), serveBare(b, http.StatusConflict, body))
	return t.row("sold_out", "bare gin", target{median: 0.95}, "")
}

// besideBare measures the service and a bare gin handler in turn. The process of the handler also reads metrics while
// the service is measured; that is no part of the service's cost, nor is the idle service of the handler's.
func (s *benchService) besideBare(b *testing.B, mine func() load, url string) turns {
	b.Helper()
	t := s.inTurn(b, mine, s.bareRush(b, url))
	t.spent.bare = 0
	t.spentTheirs = cpu{bare: t.spentTheirs.bare, wrk: t.spentTheirs.wrk}
	return t
}

// bareRush counts answers of any kind.
func (s *benchService) bareRush(b *testing.B, url string) func() load {
	return func() load { return wrk(b, url, 1) }
}

// rush counts the accepted orders.
func (s *sale) rush(b *testing.B, env ...string) load {
	b.Helper()
	begun, before := time.Now(), s.sold(b)
	sent := s.benchService.rush(b, s.url, env...)
	sold := s.sold(b) - before
	return load{requests: int(sold), perSecond: float64(sold) / time.Since(begun).Seconds(), cpu: sent.cpu}
}

// latencyAccepted and latencyPersisted measure in an open loop, at half of the rate that the service has just reached.
func (s *benchService) latencyAccepted(b *testing.B) row {
	if s.acceptedRate == 0 {
		s.accepted(b)
	}
	v := s.sell(b, plenty)
	var l latencies
	s.withoutPersisting(b, func() { l = s.pacedBesideBare(b, v, s.acceptedRate/2) }, v)
	return l.row("p99 at half of that rate, admission alone")
}

func (s *benchService) latencyPersisted(b *testing.B) row {
	if s.persistedRate == 0 {
		s.persisted(b)
	}
	v := s.sell(b, plenty)
	l := s.pacedBesideBare(b, v, s.persistedRate/2)
	v.drained(b)
	return l.row("p99 at half of that rate, persisting")
}

// latencies are those of the service and of a bare gin handler at the same rate, measured in turn, in ms.
type latencies struct {
	rate                float64
	median, p99, bare99 []float64
}

func (s *benchService) pacedBesideBare(b *testing.B, v *sale, rate float64) (l latencies) {
	b.Helper()
	l.rate = rate
	s.paced(b, v.url, rate) // connections and buffers have been made before it counts
	for range rounds() {
		mine, bare := s.paced(b, v.url, rate), s.paced(b, s.bare, rate)
		l.median = append(l.median, quantile(mine, 50))
		l.p99, l.bare99 = append(l.p99, quantile(mine, 99)), append(l.bare99, quantile(bare, 99))
	}
	return l
}

func quantile(h *hdrhistogram.Histogram, q float64) float64 {
	return float64(h.ValueAtQuantile(q)) / 1e3
}

func (l latencies) row(what string) row {
	const limit = 5
	return row{
		what: what, want: fmt.Sprintf("< %d ms", limit), evidence: evidence{met: median(l.p99) < limit, upperBound: true},
		got: fmt.Sprintf("%.2f ms (%.2f to %.2f), p50 %.2f ms; bare gin's p99 %.2f ms (%.2f to %.2f)", median(l.p99), slices.Min(l.p99), slices.Max(l.p99),
			median(l.median), median(l.bare99), slices.Min(l.bare99), slices.Max(l.bare99)),
		note: fmt.Sprintf("Open loop, %.0f/s over %d connections, from when a request was due.", l.rate, connections),
	}
}

// buckets measures the cost of splitting a voucher on one server, where it gains nothing: there are more calls, and
// each decides fewer orders.
func (s *benchService) buckets(b *testing.B) row {
	const buckets = 4
	whole, split := s.sell(b, plenty), s.sellFrom(b, buckets, plenty)
	var t turns
	s.withoutPersisting(b, func() {
		t = s.inTurn(b, func() load { return split.rush(b) }, func() load { return whole.rush(b) })
	}, whole, split)
	return t.row(fmt.Sprintf("accepted from %d buckets of one Redis", buckets), "an unsplit voucher's", target{}, "Admission alone.")
}

// keys measures the cost of an Idempotency-Key, which the order keeps.
func (s *benchService) keys(b *testing.B) row {
	v := s.sell(b, plenty)
	var t turns
	s.withoutPersisting(b, func() {
		t = s.inTurn(b, func() load { return v.rush(b, "KEYS="+strconv.Itoa(s.user)+"-") }, func() load { return v.rush(b) })
	}, v)
	return t.row("accepted under an Idempotency-Key", "those without", target{median: 0.90}, "Admission alone.")
}

// aof measures the cost of appendfsync always: Redis answers once the data is on disk, as docs/durability.md
// recommends.
func (s *benchService) aof(b *testing.B) row {
	v := s.sell(b, plenty)
	var without, with []float64
	s.withoutPersisting(b, func() {
		for range rounds() {
			without = append(without, v.rush(b).perSecond)
		}
		s.set(b, "appendfsync", "always")
		s.set(b, "appendonly", "yes")
		defer s.set(b, "appendonly", "no")
		for s.info(b, "persistence", `(?m)^aof_rewrite_in_progress:(\d)`) != 0 {
			pause(b, 10*time.Millisecond)
		}
		for range rounds() {
			with = append(with, v.rush(b).perSecond)
		}
	}, v)
	return row{
		what: "accepted with appendfsync always",
		got:  fmt.Sprintf("%.2f of those without AOF: %.0f/s, %.0f/s", median(with)/median(without), median(with), median(without)),
		note: "Admission alone. Each turn of Redis' loop waits for this machine's disk once.",
	}
}

func (s *benchService) set(b *testing.B, setting, value string) {
	b.Helper()
	fail.NowIf(b, s.redis.ConfigSet(b.Context(), setting, value).Err())
}

// memory measures what Redis keeps of each order after it was persisted, without and with an Idempotency-Key. The
// number of orders is exact, because the slots of a hash table are doubled in steps.
func (s *benchService) memory(b *testing.B) row {
	orders := int64(200_000)
	if *quick {
		orders = 50_000
	}
	perOrder := func(options func() []string) float64 {
		v := s.sell(b, orders)
		for v.sold(b) < orders {
			v.rush(b, options()...)
			v.drained(b)
		}
		return v.memory(b) / float64(orders)
	}
	plain := perOrder(func() []string { return nil })
	keyed := perOrder(func() []string { return []string{"KEYS=" + strconv.Itoa(s.user) + "-"} })
	return row{
		what: "Redis memory per accepted order", want: "≤ 90 bytes, ≤ 105 with a key", evidence: evidence{met: plain <= 90 && keyed <= 105, steady: true},
		got:  fmt.Sprintf("%.0f bytes; %.0f under an Idempotency-Key", plain, keyed),
		note: fmt.Sprintf("Growth of used_memory by a copy of the voucher's keys, %d orders each, all persisted.", orders),
	}
}

// memory is what Redis keeps of a voucher, in bytes: what a copy of its keys takes. What used_memory grows by in a rush
// has buffers in it as well, and MEMORY USAGE does not count what the allocator rounds up.
func (s *sale) memory(b *testing.B) (bytes float64) {
	b.Helper()
	for _, keys := range s.keys {
		for _, key := range []string{keys.Meta, keys.Users, keys.Orders} {
			before := s.used(b)
			if copied, err := s.redis.Copy(b.Context(), key, key+":copy", 0, false).Result(); err != nil || copied != 1 {
				b.Fatalf("copied %d, %v", copied, err)
			}
			bytes += s.used(b) - before
			fail.NowIf(b, s.redis.Del(b.Context(), key+":copy").Err())
		}
	}
	return bytes
}

func (s *benchService) used(b *testing.B) float64 {
	b.Helper()
	return s.info(b, "memory", `(?m)^used_memory:(\d+)`)
}

// info returns a number from the server's INFO.
func (s *benchService) info(b *testing.B, section, pattern string) float64 {
	b.Helper()
	text, err := s.redis.Info(b.Context(), section).Result()
	fail.NowIf(b, err)
	return find(b, text, pattern)
}
