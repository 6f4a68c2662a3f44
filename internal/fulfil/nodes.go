package fulfil

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// patience is how long a node may take for an answer. One that hangs would keep the
	// worker from the streams of all the others for as long as the client tries.
	patience = 500 * time.Millisecond
	// perStream is what each stream adds to that where many are asked for at once.
	perStream = 50 * time.Microsecond
	// hungFor is how long a node is left alone that did not answer in time. Then one call
	// finds out whether it does.
	hungFor = 2 * time.Second
)

// errHangs: the node did not answer a moment ago, so it was not asked.
var errHangs = errors.New("fulfil: the node did not answer a moment ago")

// hung are the nodes of a cluster that are left alone, as each call to one of them would
// take as long as the one that found out. A Redis that is the only one keeps nobody from
// another, and is asked every time. It is safe for use by several goroutines.
type hung struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// pass says whether a node may be asked. Of those who want to know whether it is back,
// that is one.
func (h *hung) pass(node string, limit time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, known := h.until[node]
	if !known {
		return true
	}
	now := time.Now()
	if now.Before(until) {
		return false
	}
	h.until[node] = now.Add(limit)
	return true
}

func (h *hung) note(node string, hangs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hangs && node != "" {
		h.until[node] = time.Now().Add(hungFor)
	} else {
		delete(h.until, node)
	}
}

// call asks a node, unless it hangs.
func (h *hung) call(ctx context.Context, node string, limit time.Duration, fn func(ctx context.Context) error) error {
	if !h.pass(node, limit) {
		return errHangs
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := fn(bounded)
	if ctx.Err() == nil { // else it is not known how long the node would have taken
		h.note(node, err != nil && bounded.Err() != nil)
	}
	return err
}

// node names the one where a stream is. It has no name but in a cluster.
func (r *streams) node(ctx context.Context, s *stream) string {
	if r.cluster == nil {
		return ""
	}
	node, err := r.cluster.MasterForKey(ctx, s.keys.Orders)
	if err != nil {
		return "" // the call itself fails in the same way
	}
	return node.Options().Addr
}

// ask has a call made about one stream, unless its node hangs.
func ask[T any](ctx context.Context, r *streams, s *stream, limit time.Duration, fn func(ctx context.Context) (T, error)) (T, error) {
	var reply T
	err := r.hung.call(ctx, r.node(ctx, s), limit, func(ctx context.Context) (err error) {
		reply, err = fn(ctx)
		return err
	})
	return reply, err
}

// eachNode has a pipeline filled for each node, with what concerns those of the streams
// (by index) that are there, and sends them side by side. The errors are those of the
// streams whose node hangs and was not asked; the commands have their own.
func (r *streams) eachNode(ctx context.Context, all []*stream, fill func(ctx context.Context, pipe redis.Pipeliner, part []int)) []error {
	parts := make(map[string][]int, 1)
	for i, s := range all {
		node := r.node(ctx, s)
		parts[node] = append(parts[node], i)
	}
	errs := make([]error, len(all))
	one := func(node string, part []int) {
		limit := patience + time.Duration(len(part))*perStream
		err := r.hung.call(ctx, node, limit, func(ctx context.Context) error {
			pipe := r.client.Pipeline() // of the cluster's client: a slot may have moved
			fill(ctx, pipe, part)
			_, err := pipe.Exec(ctx)
			return err
		})
		if errors.Is(err, errHangs) {
			for _, i := range part {
				errs[i] = err
			}
		}
	}
	var asked sync.WaitGroup
	for node, part := range parts {
		if len(parts) == 1 {
			one(node, part)
			break
		}
		asked.Go(func() { one(node, part) })
	}
	asked.Wait()
	return errs
}
