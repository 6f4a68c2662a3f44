package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/batch"
)

var (
	errNotReady = errors.New("not ready")
	errRefused  = errors.New("refused")
)

// processor takes a second for a batch.
type processor struct {
	ready   atomic.Bool
	awaited time.Duration // how long AwaitReady takes
	batches [][]int
	fail    error // the result of Process, which then answers nobody
}

func (p *processor) Ready() bool { return p.ready.Load() }

func (p *processor) AwaitReady() error {
	time.Sleep(p.awaited)
	if !p.Ready() {
		return errNotReady
	}
	return nil
}

func (p *processor) Process(requests []*batch.Request[int]) error {
	requests = slices.DeleteFunc(slices.Clone(requests), func(r *batch.Request[int]) bool { return !r.MarkSent() })
	var values []int
	for _, r := range requests {
		values = append(values, r.Value)
	}
	p.batches = append(p.batches, values)
	time.Sleep(time.Second)
	batch.AnswerAll(requests, p.fail)
	return p.fail
}

// run calls Do for values 0, 1, ... at the given times, and returns the answers.
func run(q *batch.Queue[int], at []time.Duration, ctxs ...context.Context) []error {
	answers := make([]error, len(at))
	var all sync.WaitGroup
	for i, when := range at {
		ctx := context.Background()
		if i < len(ctxs) {
			ctx = ctxs[i]
		}
		all.Go(func() {
			time.Sleep(when)
			answers[i] = q.Do(ctx, i)
		})
	}
	all.Wait()
	return answers
}

func spawn(work func()) bool {
	go work()
	return true
}

// Requests that arrive while a batch is processed form the next batch, up to the maximum.
func TestRequestsThatArriveMeanwhileFormTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processor{}
		p.ready.Store(true)
		q := batch.New(p, 3, spawn, errRefused)
		ms := time.Millisecond
		answers := run(q, []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms})
		if want := [][]int{{0}, {1, 2, 3}, {4}}; !slices.EqualFunc(p.batches, want, slices.Equal[[]int]) {
			t.Errorf("batches %v, want %v", p.batches, want)
		}
		if err := errors.Join(answers...); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !q.Idle() {
			t.Error("the queue is not idle at the end")
		}
	})
}

// A request leaves a queue that does not move as soon as its context ends, and is not processed. A
// request that was sent gets its answer.
func TestRequestLeavesUntilItIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processor{}
		p.ready.Store(true)
		q := batch.New(p, 10, spawn, errRefused)
		sent, cancelSent := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancelSent()
		queued, cancelQueued := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancelQueued()
		begun := time.Now()
		var left atomic.Int64
		context.AfterFunc(queued, func() { left.Store(int64(time.Since(begun))) })
		answers := run(q, []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}, sent, queued)
		if answers[0] != nil || !errors.Is(answers[1], context.DeadlineExceeded) || answers[2] != nil || time.Duration(left.Load()) != 300*time.Millisecond {
			t.Errorf("answers %v, left after %v", answers, time.Duration(left.Load()))
		}
		if want := [][]int{{0}, {2}}; !slices.EqualFunc(p.batches, want, slices.Equal[[]int]) {
			t.Errorf("batches %v, want %v", p.batches, want)
		}
	})
}

// While the processor is not ready no request is processed, and its error answers those that wait.
func TestErrorsAnswerTheWholeQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &processor{awaited: time.Second}
		q := batch.New(p, 10, spawn, errRefused)
		for i, err := range run(q, []time.Duration{0, time.Millisecond, 900 * time.Millisecond}) {
			if !errors.Is(err, errNotReady) {
				t.Errorf("not ready: request %d got %v", i, err)
			}
		}
		p.ready.Store(true)
		p.fail = errNotReady
		for i, err := range run(q, []time.Duration{0, 500 * time.Millisecond}) {
			if !errors.Is(err, errNotReady) {
				t.Errorf("the batch failed: request %d got %v", i, err)
			}
		}
		if len(p.batches) != 1 {
			t.Errorf("%d batches, want only the first", len(p.batches))
		}
	})
}

func TestRefusedWhenNoGoroutineCanBeStarted(t *testing.T) {
	q := batch.New(&processor{}, 10, func(func()) bool { return false }, errRefused)
	if err := q.Do(t.Context(), 1); !errors.Is(err, errRefused) || !q.Idle() {
		t.Errorf("Do = %v, idle %v", err, q.Idle())
	}
}
