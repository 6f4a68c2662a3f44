// Package batch groups requests that arrive while earlier ones are being processed (group commit). It does not know
// what a request is about.
//
// A request that arrives while nothing is processed is processed at once. Requests that arrive meanwhile wait in a
// [Queue] and are processed together, up to the maximum of a batch. One batch of a queue is processed at a time.
//
// # Cancellation
//
// A request leaves the queue when its context ends, until the [Processor] marks it as sent. After that it waits for its
// answer whatever its context does, because the outcome is already being decided.
//
// A goroutine that waits for the Done channel of a request's context costs more than all the rest of the queue:
// net/http starts a timer only when somebody first waits for it. So requests do not wait for their contexts while the
// queue moves. When the queue has not moved for [StalledAfter], it tells all requests in it, and those that join it
// later, to watch their own contexts. From then on they leave as soon as their contexts end.
package batch

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// StalledAfter is how long a queue waits before its requests watch their own contexts: longer than a round trip
// normally takes, shorter than a person notices.
const StalledAfter = 10 * time.Millisecond

// Processor processes the batches of a queue.
type Processor[T any] interface {
	// Ready reports whether a batch can be processed now. It must not block.
	Ready() bool
	// AwaitReady blocks until a batch can be processed. Its error is the answer to all requests that are queued by
	// then. While it blocks, requests can leave the queue.
	AwaitReady() error
	// Process answers every request of a batch, which is not empty. Its error is the answer to the requests behind the
	// batch too: they have waited as long, for the same.
	Process(batch []*Request[T]) error
}

// Queue holds the requests that wait for the next batch. It is safe for use by several goroutines.
type Queue[T any] struct {
	processor Processor[T]
	maximum   int
	spawn     func(work func()) bool
	refused   error

	requests sync.Pool // requests that can be used again

	mu      sync.Mutex
	queue   []*Request[T] // nil in the place of a request that left
	first   int64         // the ticket of queue[0]
	spare   []*Request[T] // the slice to use for the queue when a batch is taken
	working bool          // a goroutine takes batches
	// stalled: the batch under way, or AwaitReady, takes long. The alarm sets it when the queue has not been empty for
	// StalledAfter.
	stalled bool
	alarm   *time.Timer
}

// New returns a queue whose batches have at most maximum requests. spawn runs work in a goroutine and reports whether
// it does. If it does not, all requests are answered with refused.
func New[T any](processor Processor[T], maximum int, spawn func(work func()) bool, refused error) *Queue[T] {
	q := &Queue[T]{processor: processor, maximum: maximum, spawn: spawn, refused: refused}
	q.alarm = time.AfterFunc(time.Hour, q.signalStalled)
	q.alarm.Stop()
	return q
}

// Do has a request processed and returns its answer, or the context's error if the request left the queue before it was
// sent.
func (q *Queue[T]) Do(ctx context.Context, value T) error {
	r, used := q.requests.Get().(*Request[T])
	if !used {
		r = &Request[T]{done: make(chan error, 2)}
	}
	r.ctx, r.Value, r.sent, r.told = ctx, value, false, false
	err := q.wait(r)
	r.ctx = nil
	q.requests.Put(r) // its answer was received, or it left
	return err
}

func (q *Queue[T]) wait(r *Request[T]) error {
	if !q.join(r) {
		if err := <-r.done; !errors.Is(err, errStalled) {
			return err
		}
	}
	select {
	case err := <-r.done:
		return err
	case <-r.ctx.Done():
		if q.leave(r) {
			return r.ctx.Err()
		}
		return <-r.done
	}
}

// join adds a request, and reports whether the request must watch its own context. If no goroutine takes batches, join
// starts one.
func (q *Queue[T]) join(r *Request[T]) (stalled bool) {
	q.mu.Lock()
	r.ticket = q.first + int64(len(q.queue))
	q.queue = append(q.queue, r)
	stalled = q.stalled
	r.told = stalled
	idle := !q.working
	q.working = true
	if !idle && !stalled && len(q.queue) == 1 {
		q.alarm.Reset(StalledAfter)
	}
	q.mu.Unlock()
	if idle && !q.spawn(q.work) {
		q.refuse()
	}
	return stalled
}

// leave removes a request, and reports whether it was still in the queue.
func (q *Queue[T]) leave(r *Request[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.ticket < q.first {
		return false
	}
	q.queue[r.ticket-q.first] = nil
	return true
}

// signalStalled tells the requests in the queue that it does not move.
func (q *Queue[T]) signalStalled() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return // it moved just now
	}
	q.stalled = true
	for _, r := range q.queue {
		if r != nil && !r.told {
			r.told = true
			r.done <- errStalled
		}
	}
}

// work processes one batch after the other until the queue is empty.
func (q *Queue[T]) work() {
	for {
		// Goroutines that are about to join get into this batch: a round trip costs the same for one request as for
		// many. If no other goroutine can run, Gosched returns at once.
		runtime.Gosched()
		batch, left := q.next()
		switch {
		case !left:
			return
		case len(batch) == 0:
			if err := q.processor.AwaitReady(); err != nil {
				q.answerQueued(err)
			}
			continue
		}
		if err := q.processor.Process(batch); err != nil {
			q.answerQueued(err)
		}
		clear(batch)
		q.mu.Lock()
		q.spare = batch[:0]
		q.mu.Unlock()
	}
}

// next returns the next batch. It is empty while the processor is not ready. If no request is left, next ends the work.
func (q *Queue[T]) next() (batch []*Request[T], left bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(batch) == 0 { // all requests of a batch may have left
		q.stalled = false
		if len(q.queue) == 0 {
			q.working = false
			return nil, false
		}
		if !q.processor.Ready() {
			q.alarm.Reset(StalledAfter)
			return nil, true
		}
		batch = q.queue
		q.queue, q.spare = q.spare, nil
		if len(batch) > q.maximum {
			q.queue = append(q.queue, batch[q.maximum:]...)
			clear(batch[q.maximum:])
			batch = batch[:q.maximum]
			q.alarm.Reset(StalledAfter)
		}
		q.first += int64(len(batch))
		batch = slices.DeleteFunc(batch, func(r *Request[T]) bool { return r == nil })
	}
	return batch, true
}

// answerQueued gives all requests in the queue the same answer.
func (q *Queue[T]) answerQueued(err error) {
	q.mu.Lock()
	waiting := slices.DeleteFunc(slices.Clone(q.queue), func(r *Request[T]) bool { return r == nil })
	q.first += int64(len(q.queue))
	clear(q.queue)
	q.queue = q.queue[:0]
	q.mu.Unlock()
	AnswerAll(waiting, err)
}

// refuse answers all requests where no goroutine can be started.
func (q *Queue[T]) refuse() {
	for {
		q.answerQueued(q.refused)
		q.mu.Lock()
		if len(q.queue) == 0 {
			q.working = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
	}
}

// Idle reports whether no request is queued or being processed.
func (q *Queue[T]) Idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.working
}
