package rw_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/rw"
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

// Readers share the lock, a writer holds it alone.
func Example() {
	ctx := context.Background()
	client, stop := connect()
	defer stop()

	locks, err := rw.New(client, rw.Config{Prefix: "shop:"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	first, err := locks.Reader().Acquire(ctx, "prices", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	second, err := locks.Reader().Acquire(ctx, "prices", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Writer().Acquire(ctx, "prices", lock.Options{})
	fmt.Println("a writer beside readers:", errors.Is(err, lock.ErrNotAcquired))

	writers := make(chan lock.Lease)
	go func() {
		writer, err := locks.Writer().Acquire(ctx, "prices", lock.Options{Wait: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		writers <- writer
	}()
	fmt.Println("released:", lock.Release(ctx, first), lock.Release(ctx, second))
	writer := <-writers
	_, err = locks.Reader().Acquire(ctx, "prices", lock.Options{})
	fmt.Println("a reader beside a writer:", errors.Is(err, lock.ErrNotAcquired))
	fmt.Println("released:", lock.Release(ctx, writer))
	// Output:
	// a writer beside readers: true
	// released: <nil> <nil>
	// a reader beside a writer: true
	// released: <nil>
}
