package load

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"seckill/internal/lab/finding"
)

// Outcome is the result of a load.
type Outcome struct {
	Requests int            // that were sent
	Answers  map[string]int // by code
	Latency  finding.Latency
	All      []Answer // in the order of the answers
}

// Placed returns the answers of confirmed orders.
func (o *Outcome) Placed() []Answer {
	var placed []Answer
	for _, a := range o.All {
		if a.Code == Created {
			placed = append(placed, a)
		}
	}
	return placed
}

func newOutcome(answers []Answer, took time.Duration) *Outcome {
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Answered, b.Answered) })
	o := &Outcome{Requests: len(answers), Answers: map[string]int{}, All: answers}
	for _, a := range answers {
		o.Answers[a.Code]++
	}
	o.Latency = latency(answers, took)
	return o
}

// Range of the histogram, and its precision in significant digits.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(2 * requestTimeout)
	digits   = 3
)

// latency uses answered requests only: the latency of the others is unknown.
func latency(answers []Answer, took time.Duration) finding.Latency {
	h := hdrhistogram.New(shortest, longest, digits)
	var times []int64
	for _, a := range answers {
		if a.Code != Network {
			ns := min(max(int64(a.Took()), shortest), longest)
			times = append(times, ns)
			_ = h.RecordValue(ns) // it refuses only values out of its range
		}
	}
	l := finding.Latency{Count: len(times)}
	if l.Count == 0 {
		return l
	}
	if seconds := took.Seconds(); seconds > 0 {
		l.PerSecond = float64(l.Count) / seconds
	}
	l.P50MS, l.P90MS, l.P99MS = ms(h.ValueAtQuantile(50)), ms(h.ValueAtQuantile(90)), ms(h.ValueAtQuantile(99))
	l.MaxMS = ms(slices.Max(times))
	l.Buckets = buckets(times)
	return l
}

// perDecade is the number of bars per power of ten.
const perDecade = 10

// buckets returns bars of equal width on a logarithmic axis, from the first that is not empty
// to the last.
func buckets(times []int64) []finding.Bucket {
	bar := func(ns int64) int { return int(math.Ceil(math.Log10(float64(ns)) * perDecade)) }
	first := bar(slices.Min(times))
	all := make([]finding.Bucket, bar(slices.Max(times))-first+1)
	for i := range all {
		all[i].UpToMS = ms(int64(math.Round(math.Pow(10, float64(first+i)/perDecade))))
	}
	for _, ns := range times {
		all[bar(ns)-first].Count++
	}
	return all
}

// ms rounds to microseconds.
func ms(ns int64) float64 { return math.Round(float64(ns)/1e3) / 1e3 }
