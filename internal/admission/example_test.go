package admission_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission"
	"seckill/internal/database"
	"seckill/internal/fulfil"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// connect starts a Redis server and a database for an example. Where you have them:
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", MaxRetries: -1, ContextTimeoutEnabled: true})
//	db, err := database.Open(ctx, database.Config{DSN: "user:password@tcp(localhost:3306)/shop"})
func connect(ctx context.Context) (client *redis.Client, db *database.DB, stop func(), err error) {
	t, end := testkit.Example()
	client = redis.NewClient(&redis.Options{Addr: testkit.NewRedis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	if db, err = database.Open(ctx, database.Config{SQLite: filepath.Join(t.TempDir(), "shop.db")}); err != nil {
		return nil, nil, end, err
	}
	_, err = db.Migrate(ctx)
	return client, db, func() { _, _ = client.Close(), db.Close(); end() }, err
}

// Redis decides about an order, and the buyer is told at once. A fulfiller writes it to the database.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, db, stop, err := connect(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	v := voucher.Voucher{
		ID: 7, Title: "Two coffees", Stock: 2, InitialStock: 2, Policy: voucher.DefaultPolicy(),
		BeginAt: now.Add(-time.Minute), EndAt: now.Add(time.Hour), CreatedAt: now,
	}
	v.Policy.Flow = voucher.FlowAdmission
	if err := db.Vouchers().CreateVoucher(ctx, &v); err != nil {
		fmt.Println(err)
		return
	}

	store, log := db.AdmissionStore(), slog.New(slog.DiscardHandler)
	locks, err := reentrant.New(client, reentrant.Config{Prefix: "shop:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	fulfiller, err := fulfil.New(fulfil.Config{Client: client, Store: store, Orders: db.Orders(), Log: log, Prefix: "shop:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	gate, err := admission.New(admission.Config{
		Client: client, Store: store, Workers: fulfiller, Locker: locks, Log: log, Prefix: "shop:",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gate.Close()
	fulfilled := make(chan struct{})
	go func() { defer close(fulfilled); fulfiller.Run(ctx) }()
	defer func() { cancel(); <-fulfilled }()

	first := order.Order{ID: 1001, VoucherID: v.ID, UserID: 42, CreatedAt: now}
	fmt.Println("user 42:", gate.Admit(ctx, &v, first))
	fmt.Println("user 42 again, as order 1002:", gate.Admit(ctx, &v, order.Order{ID: 1002, VoucherID: v.ID, UserID: 42}))
	fmt.Println("user 43:", gate.Admit(ctx, &v, order.Order{ID: 1003, VoucherID: v.ID, UserID: 43}))
	fmt.Println("user 44:", gate.Admit(ctx, &v, order.Order{ID: 1004, VoucherID: v.ID, UserID: 44}))

	if err := gate.Await(ctx, first, time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	written, err := db.Orders().Order(ctx, first.ID)
	fmt.Println("in the database:", written.Status, err)
	// Output:
	// user 42: <nil>
	// user 42 again, as order 1002: order: user has already ordered this voucher
	// user 43: <nil>
	// user 44: voucher: sold out
	// in the database: confirmed <nil>
}
