package fair_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/fair"
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

// Waiters get the lock in order of arrival. Inspect lists them.
func Example() {
	ctx := context.Background()
	client, stop := connect()
	defer stop()

	locks, err := fair.New(client, fair.Config{Prefix: "shop:"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	lease, err := locks.Acquire(ctx, "till", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan lock.Owner)
	for i, customer := range []lock.Owner{"Ann", "Bob", "Cid"} {
		go func() {
			lease, err := locks.Acquire(lock.WithOwner(ctx, customer), "till", lock.Options{Wait: time.Minute})
			if err != nil {
				log.Fatal(err)
			}
			served <- lease.Owner()
			_ = lock.Release(ctx, lease)
		}()
		waitForQueue(ctx, locks, i+1) // so that they arrive one after the other
	}

	state, err := locks.Inspect(ctx, "till")
	fmt.Println("queue:", state.Queue, err)
	fmt.Println("released:", lock.Release(ctx, lease))
	for range 3 {
		fmt.Println("served:", <-served)
	}
	// Output:
	// queue: [Ann Bob Cid] <nil>
	// released: <nil>
	// served: Ann
	// served: Bob
	// served: Cid
}

func waitForQueue(ctx context.Context, locks lock.Inspector, n int) {
	for {
		state, err := locks.Inspect(ctx, "till")
		if err != nil || len(state.Queue) == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
