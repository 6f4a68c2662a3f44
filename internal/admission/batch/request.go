package batch

import (
	"context"
	"errors"
)

// Request is one request. The queue owns it until it is in a batch, then the processor until it is answered.
type Request[T any] struct {
	Value T

	ctx  context.Context
	done chan error // has room for errStalled and the answer

	sent   bool
	told   bool // errStalled was sent
	ticket int64
}

// errStalled is not an answer: it tells a waiting request to watch its own context.
var errStalled = errors.New("the queue does not move")

// NewRequest returns a request that is in no queue.
func NewRequest[T any](ctx context.Context, value T) *Request[T] {
	return &Request[T]{Value: value, ctx: ctx, done: make(chan error, 2)}
}

// Context returns the request's context.
func (r *Request[T]) Context() context.Context { return r.ctx }

// Answer answers the request. A request is answered once.
func (r *Request[T]) Answer(err error) { r.done <- err }

// Answered returns the channel that receives the answer of a request that is in no queue.
func (r *Request[T]) Answered() <-chan error { return r.done }

// MarkSent marks the request as sent, so that it waits for its answer. If its context has ended before, MarkSent
// answers the request with the context's error and reports false.
func (r *Request[T]) MarkSent() bool {
	if !r.sent {
		if err := r.ctx.Err(); err != nil {
			r.done <- err
			return false
		}
		r.sent = true
	}
	return true
}

// UnmarkSent takes the mark from all requests of a batch of which none was processed, so that they can leave again.
func UnmarkSent[T any](batch []*Request[T]) {
	for _, r := range batch {
		r.sent = false
	}
}

// AnswerAll answers all requests of a batch: those whose context has ended before they were sent with the context's
// error, the others with err.
func AnswerAll[T any](batch []*Request[T], err error) {
	for _, r := range batch {
		if r.MarkSent() {
			r.done <- err
		}
	}
}
