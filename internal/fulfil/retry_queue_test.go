package fulfil

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// queueOf returns a queue with entries, by number, of a stream.
func queueOf(s *stream, entries ...retryEntry) *retryQueue {
	q := newRetryQueue(&Config{BatchSize: 3, MinBackoff: 50 * time.Millisecond, MaxBackoff: 2 * time.Second})
	for n, e := range entries {
		e.entry = entry{stream: s, id: fmt.Sprint(n), order: contract.Accepted{OrderID: int64(n)}}
		q.add(e, 0)
	}
	return q
}

// ids lists which entries a queue would have tried now.
func (q *retryQueue) ids() (ids []string) {
	q.nextLook = time.Time{}
	for _, key := range q.due() {
		ids = append(ids, key.id)
	}
	slices.Sort(ids)
	return ids
}

func wantIDs(t *testing.T, q *retryQueue, what string, want ...string) {
	t.Helper()
	if got := q.ids(); !slices.Equal(got, want) {
		t.Errorf("%s: %v are due, want %v", what, got, want)
	}
}

// An entry is due after its delay, once, and those that have failed the fewest times have their turn first.
func TestRetryQueueTurns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newStream("", 1, 0)
		q := queueOf(s, retryEntry{failures: 9}, retryEntry{failures: 2}, retryEntry{}, retryEntry{failures: 1})
		wantIDs(t, q, "a batch of three", "1", "2", "3")
		e, taken := q.take(entryID{s, "2"})
		if _, again := q.take(entryID{s, "2"}); !taken || again || q.has(e.entry) || q.count(s) != 3 {
			t.Errorf("taken %t, and again %t; %d are left", taken, again, q.count(s))
		}
		q.add(e, time.Second)
		q.add(retryEntry{entry: e.entry}, 0) // delivered again: what is known of it stays
		if _, early := q.take(entryID{s, "2"}); early {
			t.Error("taken before it is due")
		}
		wantIDs(t, q, "one is not due", "0", "1", "3")
		simulate.Sleep(time.Second)
		wantIDs(t, q, "all are due", "1", "2", "3")
		if q.nextLook = time.Now().Add(time.Millisecond); q.due() != nil {
			t.Error("the queue is looked through twice within MinBackoff")
		}
	})
}

// The pauses of a stream grow up to MaxBackoff, are not shorter than the attempt, and end when an order is written. A
// pause of all streams concerns every entry.
func TestRetryQueuePauses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, other := newStream("", 1, 0), newStream("", 2, 0)
		q := queueOf(s, retryEntry{})
		q.add(retryEntry{entry: entry{stream: other, id: "other"}}, 0)
		lasts := func(begin func()) time.Duration {
			began := time.Now()
			for begin(); q.paused(s) || time.Now().Before(q.outage.until); {
				simulate.Sleep(time.Millisecond)
			}
			return time.Since(began)
		}
		for n, most := range []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
			if took := lasts(func() { q.pause(s, 0); wantIDs(t, q, "a stream pauses", "other") }); took > most || took < most/2-time.Millisecond {
				t.Errorf("pause %d lasts for %v, want %v less some", n+1, took, most)
			}
		}
		fail.Unequal(t, lasts(func() { q.pause(s, 10*time.Second) }), 10*time.Second, "after an attempt of 10 s the pause lasts for")
		q.written(s)
		if took := lasts(func() { q.pause(s, 0) }); took > 50*time.Millisecond {
			t.Errorf("after a success the first pause lasts for %v", took)
		}
		lasts(func() { q.pauseAll(0); wantIDs(t, q, "all streams pause") })
		q.pauseAll(time.Hour)
		q.resume(other)
		wantIDs(t, q, "an order of any stream was written", "0", "other")
		for n := range 2 * maxRefused {
			if q.refused(s); q.paused(s) != (n >= maxRefused-1) {
				t.Errorf("after %d refusals in a row: paused %t", n+1, q.paused(s))
			}
		}
	})
}

// A voucher whose orders are refused gets no new ones until its pause is over and no entry is set aside untried.
func TestRetryQueueRefusesAll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, bucket, other := newStream("", 1, 0), newStream("", 1, 1), newStream("", 2, 0)
		q := queueOf(s, retryEntry{setAside: true}, retryEntry{setAside: true, failures: 1}, retryEntry{}, retryEntry{setAside: true})
		want := func(what string, first, second bool) {
			t.Helper()
			if refuses := q.refusesAll(); refuses(s) != first || refuses(bucket) != second || refuses(other) {
				t.Errorf("%s: %t, %t, and another voucher %t", what, refuses(s), refuses(bucket), refuses(other))
			}
		}
		q.pauseVoucher([]*stream{s, bucket, other}, time.Second, false)
		want("a pause alone", false, false)
		q.pauseVoucher([]*stream{s, bucket}, time.Second, true)
		q.pauseVoucher([]*stream{s, bucket}, time.Second, false)
		want("the voucher is refused", true, true)
		simulate.Sleep(2 * time.Second)
		want("the pause is over, and entries are set aside", true, false)
		untried := q.takeUntried(s)
		if len(untried) != 2 || untried[0].id != "0" || untried[1].id != "3" || q.count(s) != 2 {
			t.Errorf("untried: %v; %d are left", untried, q.count(s))
		}
		want("none is set aside", false, false)
		q.pause(s, time.Second)
		want("a further pause", true, false)
		q.forget(s)
		want("no longer watched", false, false)
		fail.Unequal(t, q.count(s), 2, "entries of a stream that is no longer watched")
	})
}
