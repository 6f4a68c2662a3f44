package reentrant_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
)

// connect starts a Redis in this process for an example. Where you have one:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
func connect() (client *redis.Client, stop func()) {
	t, end := testkit.Example()
	return simulate.NewRedis(t).Client(t), end
}

// One holder at a time, across processes. The lease is renewed until the release. The work runs under the lease's
// context, which ends when the lock is lost.
func Example() {
	ctx := context.Background()
	client, stop := connect()
	defer stop()

	locks, err := reentrant.New(client, reentrant.Config{Prefix: "shop:"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	lease, err := locks.Acquire(ctx, "report", lock.Options{Wait: 5 * time.Second})
	if err != nil { // lock.ErrNotAcquired: another process had it for five seconds
		log.Fatal(err)
	}
	fmt.Println("report written:", writeReport(lease.Context()))
	fmt.Println("released:", lock.Release(ctx, lease))
	// Output:
	// report written: <nil>
	// released: <nil>
}

func writeReport(ctx context.Context) error { return ctx.Err() }

// Of two processes one gets the lock. The other one waits as long as it likes: here not at all, and then for ten
// seconds, in which the lock becomes free.
func Example_twoProcesses() {
	ctx := context.Background()
	client, stop := connect()
	defer stop()

	first, err := reentrant.New(client, reentrant.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer first.Close()
	second, err := reentrant.New(client, reentrant.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer second.Close()

	lease, err := first.Acquire(lock.WithOwner(ctx, "worker-1"), "report", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = second.Acquire(lock.WithOwner(ctx, "worker-2"), "report", lock.Options{})
	fmt.Println("not acquired:", errors.Is(err, lock.ErrNotAcquired))
	if taken, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
		fmt.Println("holder:", taken.Holder)
	}

	next := make(chan lock.Lease)
	go func() {
		lease, err := second.Acquire(lock.WithOwner(ctx, "worker-2"), "report", lock.Options{Wait: 10 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		next <- lease
	}()
	fmt.Println("released:", lock.Release(ctx, lease))
	lease = <-next
	fmt.Println("next holder:", lease.Owner())
	fmt.Println("released:", lock.Release(ctx, lease))
	// Output:
	// not acquired: true
	// holder: worker-1
	// released: <nil>
	// next holder: worker-2
	// released: <nil>
}

// The holder is told when it loses the lock: here an operator takes it away, and the next renewal finds that out.
func Example_lost() {
	ctx := context.Background()
	client, stop := connect()
	defer stop()

	locks, err := reentrant.New(client, reentrant.Config{WatchdogTimeout: 600 * time.Millisecond}) // renewed every 200 ms
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	lease, err := locks.Acquire(ctx, "report", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := locks.ForceRelease(ctx, "report"); err != nil {
		log.Fatal(err)
	}

	<-lease.Context().Done() // where work would stop; lease.Lost() is the same as a channel
	fmt.Println(context.Cause(lease.Context()))
	fmt.Println("nothing to release:", errors.Is(lock.Release(ctx, lease), lock.ErrExpired))
	// Output:
	// lock: lease expired: "report"
	// nothing to release: true
}

// The same owner may acquire the key again. The lock is free when each lease was released.
func Example_reentry() {
	client, stop := connect()
	defer stop()

	locks, err := reentrant.New(client, reentrant.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	ctx := lock.WithOwner(context.Background(), "order-42")
	outer, err := locks.Acquire(ctx, "voucher:7", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	inner, err := locks.Acquire(ctx, "voucher:7", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, lease := range []lock.Lease{inner, outer} {
		state, err := locks.Inspect(ctx, "voucher:7")
		fmt.Println("leases:", state.Count, err)
		fmt.Println("released:", lock.Release(ctx, lease))
	}
	// Output:
	// leases: 2 <nil>
	// released: <nil>
	// leases: 1 <nil>
	// released: <nil>
}
