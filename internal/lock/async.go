package lock

import "context"

// Result is the outcome of an acquisition in the background.
type Result struct {
	Lease Lease
	Err   error
}

// Async acquires in the background and sends the single result on the channel that it
// returns. To give up, cancel ctx: a lease that was not yet received from the channel is
// then released, and the result becomes the error of ctx.
func Async(ctx context.Context, l Locker, key string, opts Options) <-chan Result {
	results := make(chan Result, 1)
	go func() {
		lease, err := l.Acquire(ctx, key, opts)
		results <- Result{Lease: lease, Err: err}
		if err != nil {
			return
		}
		stop := context.AfterFunc(ctx, func() {
			select {
			case r := <-results:
				_ = Release(ctx, r.Lease) // nobody is left to report an error to
				results <- Result{Err: ctx.Err()}
			default: // received: the receiver releases it
			}
		})
		context.AfterFunc(lease.Context(), func() {
			if len(results) == 0 {
				stop() // received
			}
		})
	}()
	return results
}
