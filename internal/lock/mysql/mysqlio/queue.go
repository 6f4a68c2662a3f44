package mysqlio

import (
	"context"
	"slices"
	"sync"
)

// queue admits one waiter of this process for each key at a time, in order of arrival.
type queue struct {
	mu   sync.Mutex
	keys map[string][]chan struct{} // the first is admitted, the others wait until their channel is closed
}

// enter returns when the caller is first, or with the error of ctx. leave admits the next waiter.
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

// len counts the waiters for key, including the first one.
func (q *queue) len(key string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys[key])
}
