package locktest

import (
	"context"

	"seckill/internal/lock"
)

// Result is the result of an acquisition in the background.
type Result struct {
	Lease lock.Lease
	Err   error
}

// InBackground acquires in the background. The channel that it returns delivers one result; whoever receives a lease
// releases it.
func InBackground(ctx context.Context, l lock.Locker, key string, opts lock.Options) <-chan Result {
	results := make(chan Result, 1)
	go func() {
		lease, err := l.Acquire(ctx, key, opts)
		results <- Result{lease, err}
	}()
	return results
}
