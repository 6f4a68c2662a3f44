package fenced_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	_ "github.com/glebarez/go-sqlite" // the driver "sqlite"; MySQL takes the same SQL
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/fenced"
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

// A holder that is paused for longer than its lease writes when the next holder already works. The token makes the
// database refuse that write.
func Example() {
	ctx := context.Background()
	client, stop := connect()
	defer stop()
	db, err := openShop(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	locks, err := fenced.New(client, fenced.Config{Prefix: "shop:"})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	paused, err := locks.Acquire(ctx, "voucher:7", lock.Options{TTL: 50 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	// The process of this holder stops here, for longer than 50 ms. Meanwhile:
	next, err := locks.Acquire(ctx, "voucher:7", lock.Options{Wait: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the token has grown:", next.Token() > paused.Token())
	fmt.Println(sell(ctx, db, next.Token()))
	fmt.Println(sell(ctx, db, paused.Token())) // too late
	fmt.Println("released:", lock.Release(ctx, next))
	// Output:
	// the token has grown: true
	// sold
	// refused: the lock was lost
	// released: <nil>
}

// sell writes only if no newer holder has written. It records the token with the write.
func sell(ctx context.Context, db *sql.DB, token uint64) string {
	result, err := db.ExecContext(ctx, `
		UPDATE vouchers SET stock = stock - 1, fence_token = ?
		WHERE id = 7 AND stock > 0 AND fence_token <= ?`, token, token)
	if err != nil {
		return err.Error()
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return err.Error()
	case n == 0: // or sold out: SELECT tells the two apart
		return "refused: the lock was lost"
	}
	return "sold"
}

func openShop(ctx context.Context) (*sql.DB, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	_, err = db.ExecContext(ctx, `
		CREATE TABLE vouchers (id BIGINT PRIMARY KEY, stock BIGINT NOT NULL, fence_token BIGINT NOT NULL DEFAULT 0);
		INSERT INTO vouchers (id, stock) VALUES (7, 100)`)
	return db, err
}
