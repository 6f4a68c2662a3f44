package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
)

// Options.Wait limits the wait for a key that is taken. The errors tell whether the limit passed or the context ended.
// The context of a lease says why it ended.
func Example() {
	ctx := context.Background()
	locks := local.New()

	first, err := locks.Acquire(ctx, "voucher:7", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	_, err = locks.Acquire(ctx, "voucher:7", lock.Options{Wait: 20 * time.Millisecond})
	fmt.Println("the limit passed:", errors.Is(err, lock.ErrNotAcquired))
	if taken, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
		fmt.Println("the holder is the first:", taken.Holder == first.Owner())
	}

	impatient, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = locks.Acquire(impatient, "voucher:7", lock.Options{Wait: time.Minute})
	fmt.Println("the context ended:", errors.Is(err, context.DeadlineExceeded), errors.Is(err, lock.ErrNotAcquired))

	// Release works even if the request's context has ended.
	fmt.Println("released:", lock.Release(ctx, first))
	fmt.Println("why the work has to stop:", context.Cause(first.Context()))
	fmt.Println("released again:", lock.Release(ctx, first))
	// Output:
	// the limit passed: true
	// the holder is the first: true
	// the context ended: true false
	// released: <nil>
	// why the work has to stop: lock: released
	// released again: lock: not held
}

// The holder of a key is an owner in the context and not a goroutine: it may move to another goroutine or another
// process. Acquiring again as the same owner is re-entry with reentrant, fair, rw and fenced. The mechanism here has no
// re-entry, and its refusal names the owner itself.
func ExampleWithOwner() {
	ctx := lock.WithOwner(context.Background(), "order-42")
	locks := local.New()

	outer, err := locks.Acquire(ctx, "voucher:7", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held by", outer.Owner())

	_, err = locks.Acquire(ctx, "voucher:7", lock.Options{})
	fmt.Println(err)
	fmt.Println(lock.Release(ctx, outer))
	// Output:
	// held by order-42
	// lock: not acquired: "voucher:7" is held by order-42
	// <nil>
}

// Acquire blocks until the lock is granted or the wait ends. A goroutine and a channel make room for other work
// meanwhile. To give up, cancel ctx: a lease that nobody receives is released.
func Example_background() {
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	locks := local.New()
	first, err := locks.Acquire(ctx, "report", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}

	leases := make(chan lock.Lease)
	go func() {
		defer close(leases)
		lease, err := locks.Acquire(ctx, "report", lock.Options{Wait: time.Minute})
		if err != nil {
			return
		}
		select {
		case leases <- lease:
		case <-ctx.Done():
			_ = lock.Release(ctx, lease)
		}
	}()
	fmt.Println("something else can be done meanwhile")
	fmt.Println(lock.Release(ctx, first))

	second := <-leases // nil where the wait has ended without the lock
	fmt.Println(second.Key(), lock.Release(ctx, second))
	// Output:
	// something else can be done meanwhile
	// <nil>
	// report <nil>
}

// Observe reports the events that metrics are made of: how long acquisitions wait, how long leases are held, and why
// they are refused or lost.
func ExampleObserve() {
	ctx := context.Background()
	locks := lock.Observe(local.New(), lock.Observer{
		Acquired: func(time.Duration) { fmt.Println("acquired") },
		Refused:  func(_ time.Duration, err error) { fmt.Println("refused:", errors.Is(err, lock.ErrNotAcquired)) },
		Released: func(_ time.Duration, err error) { fmt.Println("released:", err) },
	})

	lease, err := locks.Acquire(ctx, "voucher:7", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Acquire(ctx, "voucher:7", lock.Options{})
	fmt.Println("held:", errors.Is(err, lock.ErrNotAcquired))
	if err := lock.Release(ctx, lease); err != nil {
		fmt.Println(err)
	}
	// Output:
	// acquired
	// refused: true
	// held: true
	// released: <nil>
}

// Extend makes a fixed lease end at another time, counted from now. In this example a function stands in for the store.
func ExampleLease_extend() {
	ctx := context.Background()
	begun := time.Now()
	var lease lock.Lease = lock.NewHeld(ctx, lock.Grant{
		Key: "report", TTL: time.Second, Until: begun.Add(time.Second),
		Extend:  func(_ context.Context, ttl time.Duration) (time.Time, error) { return time.Now().Add(ttl), nil },
		Release: func(context.Context) error { return nil },
	})

	fmt.Println(lease.Extend(ctx, time.Minute), lease.Remaining() > 50*time.Second)
	fmt.Println(errors.Is(lease.Extend(ctx, 2*time.Hour), lock.ErrInvalid))
	fmt.Println(lock.Release(ctx, lease))
	fmt.Println(lease.Extend(ctx, time.Minute))

	// A mutex in this process has no leases to extend.
	mutex, err := local.New().Acquire(ctx, "report", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(mutex.Extend(ctx, 0), errors.ErrUnsupported))
	fmt.Println(lock.Release(ctx, mutex))
	// Output:
	// <nil> true
	// true
	// <nil>
	// lock: not held
	// true
	// <nil>
}
