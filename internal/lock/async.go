package lock

import "context"

// Result is what an acquisition in the background came to.
type Result struct {
	Lease Lease
	Err   error
}

// Async acquires in the background and delivers the one result on the channel
// returned. Whoever does not want it any more cancels ctx: a lease that has not
// been received by then is given back, and the result becomes ctx's error.
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
				_ = Release(ctx, r.Lease) // nobody is left to be told
				results <- Result{Err: ctx.Err()}
			default: // received: the lease is the receiver's
			}
		})
		context.AfterFunc(lease.Context(), func() {
			if ctx.Err() == nil {
				stop() // released: there is nothing to look after any more
			}
		})
	}()
	return results
}
