package red_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/red"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
)

// startNodes starts three Redis servers in this process for an example. Where you have them:
//
//	nodes := []red.Client{
//		redis.NewClient(&redis.Options{Addr: "a:6379", ContextTimeoutEnabled: true}),
//		redis.NewClient(&redis.Options{Addr: "b:6379", ContextTimeoutEnabled: true}),
//		redis.NewClient(&redis.Options{Addr: "c:6379", ContextTimeoutEnabled: true}),
//	}
func startNodes() (nodes []red.Client, servers []*simulate.Redis, stop func()) {
	t, end := testkit.Example()
	for i := range 3 {
		server := simulate.NewRedis(t)
		options := server.Options()
		options.Addr = fmt.Sprintf("node-%d:6379", i)
		client := redis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		servers, nodes = append(servers, server), append(nodes, client)
	}
	return nodes, servers, end
}

// The lock survives the loss of one of three servers. Without two of them nobody gets it.
func Example() {
	ctx := context.Background()
	nodes, servers, stop := startNodes()
	defer stop()

	locks, err := red.New(nodes, red.Config{Prefix: "shop:", NodeTimeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	servers[0].Stop()
	lease, err := locks.Acquire(ctx, "report", lock.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("with two of three: acquired")
	fmt.Println("released:", lock.Release(ctx, lease))

	servers[1].Stop()
	_, err = locks.Acquire(ctx, "report", lock.Options{})
	fmt.Println("with one of three: unavailable:", errors.Is(err, lock.ErrUnavailable))
	// Output:
	// with two of three: acquired
	// released: <nil>
	// with one of three: unavailable: true
}
