package mysqlio

import (
	"context"
	"slices"
	"sync"
)

// queue lets one waiter of this process and key through at a time, in order of
// arrival.
type queue struct {
	mu   sync.Mutex
	keys map[string][]chan struct{} // the first is at work, the others wait for their close
}

// enter returns when the caller is first, or with ctx's error. leave lets the next
// one in.
func (q *queue) enter(ctx context.Context, key string) (leave func(), err error) {
	turn := make(chan struct{})
	q.mu.Lock()
	if q.keys == nil {
		q.keys = make(map[string][]chan struct{})
	}
	if len(q.keys[key]) == 0 {
		close(turn)
	}
	q.keys[key] = append(q.keys[key], turn)
	q.mu.Unlock()
	leave = func() { q.leave(key, turn) }
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (q *queue) leave(key string, turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.keys[key], turn)
	rest := slices.Delete(q.keys[key], i, i+1)
	if len(rest) == 0 {
		delete(q.keys, key)
		return
	}
	q.keys[key] = rest
	if i == 0 {
		close(rest[0])
	}
}

// len is how many wait for key, the first included.
func (q *queue) len(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys[key])
}
