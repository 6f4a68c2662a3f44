package fulfil

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// nodeTimeout is how long a node may take to answer. Without a limit, a node that hangs would block a worker, and
	// with it the streams on all other nodes, for as long as the client keeps trying.
	nodeTimeout = 500 * time.Millisecond
	// timeoutPerStream is added for each stream of a pipeline.
	timeoutPerStream = 50 * time.Microsecond
	// openFor is how long a node is not called after it timed out. Then a single call tests whether it answers again.
	openFor = 2 * time.Second
)

// errCircuitOpen says that the node was not called, because it timed out a moment ago.
var errCircuitOpen = errors.New("fulfil: the node timed out a moment ago")

// circuitBreaker skips calls to nodes of a cluster that hang: each such call would take as long as the one that timed
// out. A Redis that is not a cluster has no other nodes to protect and is always called. It is safe for use by several
// goroutines.
type circuitBreaker struct {
	mu        sync.Mutex
	openUntil map[string]time.Time // by node
}

// call calls fn with a timeout, unless the node's circuit is open.
func (b *circuitBreaker) call(ctx context.Context, node string, timeout time.Duration, fn func(ctx context.Context) error) error {
	if !b.allow(node, timeout) {
		return errCircuitOpen
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := fn(bounded)
	if ctx.Err() == nil { // otherwise the caller ended the call, which says nothing about the node
		b.record(node, err != nil && bounded.Err() != nil)
	}
	return err
}

// allow reports whether a node may be called. After openFor it allows one caller at a time to test the node.
func (b *circuitBreaker) allow(node string, timeout time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, open := b.openUntil[node]
	if !open {
		return true
	}
	now := time.Now()
	if now.Before(until) {
		return false
	}
	b.openUntil[node] = now.Add(timeout)
	return true
}

func (b *circuitBreaker) record(node string, timedOut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if timedOut && node != "" {
		b.openUntil[node] = time.Now().Add(openFor)
	} else {
		delete(b.openUntil, node)
	}
}

// node returns the address of the node that holds a stream, or "" if Redis is not a cluster.
func (r *redisStreams) node(ctx context.Context, s *stream) string {
	if r.cluster == nil {
		return ""
	}
	node, err := r.cluster.MasterForKey(ctx, s.keys.Orders)
	if err != nil {
		return "" // the call itself will fail with the same error
	}
	return node.Options().Addr
}

// call calls fn for one stream through the circuit breaker.
func call[T any](ctx context.Context, r *redisStreams, s *stream, timeout time.Duration, fn func(ctx context.Context) (T, error)) (T, error) {
	var reply T
	err := r.breaker.call(ctx, r.node(ctx, s), timeout, func(ctx context.Context) (err error) {
		reply, err = fn(ctx)
		return err
	})
	return reply, err
}

// do does what call does, for a command without a reply. Its error says what failed.
func (r *redisStreams) do(ctx context.Context, s *stream, what string, fn func(ctx context.Context) error) error {
	if err := r.breaker.call(ctx, r.node(ctx, s), nodeTimeout, fn); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// eachStream sends a command for each stream, in one pipeline to each node, and returns the replies and their errors.
func eachStream[C redis.Cmder](
	ctx context.Context, r *redisStreams, streams []*stream, add func(ctx context.Context, pipe redis.Pipeliner, s *stream) C,
) (replies []C, errs []error) {
	replies = make([]C, len(streams))
	errs = r.eachNode(ctx, streams, func(ctx context.Context, pipe redis.Pipeliner, part []int) {
		for _, i := range part {
			replies[i] = add(ctx, pipe, streams[i])
		}
	})
	for i := range errs {
		if errs[i] == nil {
			errs[i] = replies[i].Err()
		}
	}
	return replies, errs
}

// eachNode sends one pipeline to each node concurrently, through the circuit breaker. fill adds the commands for the
// streams on the node, given by index. The result has an error for each stream whose node was not called; other errors
// are in the commands.
func (r *redisStreams) eachNode(ctx context.Context, streams []*stream, fill func(ctx context.Context, pipe redis.Pipeliner, part []int)) []error {
	parts := make(map[string][]int, 1)
	for i, s := range streams {
		node := r.node(ctx, s)
		parts[node] = append(parts[node], i)
	}
	errs := make([]error, len(streams))
	send := func(node string, part []int) {
		timeout := nodeTimeout + time.Duration(len(part))*timeoutPerStream
		err := r.breaker.call(ctx, node, timeout, func(ctx context.Context) error {
			pipe := r.client.Pipeline() // of the cluster client, because a slot may have moved
			fill(ctx, pipe, part)
			_, err := pipe.Exec(ctx)
			return err
		})
		if errors.Is(err, errCircuitOpen) {
			for _, i := range part {
				errs[i] = err
			}
		}
	}
	var calls sync.WaitGroup
	for node, part := range parts {
		if len(parts) == 1 {
			send(node, part)
			break
		}
		calls.Go(func() { send(node, part) })
	}
	calls.Wait()
	return errs
}
