package actor_test

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/database"
	"seckill/internal/lab/actor"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

// shop is a database with a voucher on sale, and what an actor needs to use it.
type shop struct {
	db     *database.DB
	config actor.Config
}

const onSale = 1 // the voucher

func shops(t *testing.T, test func(t *testing.T, s *shop)) {
	for name, open := range map[string]func(testkit.TB) testkit.Database{"sqlite": testkit.SQLite, "mariadb": testkit.MariaDB} {
		t.Run(name, func(t *testing.T) { test(t, newShop(t, open(t), 3)) })
	}
}

func newShop(t *testing.T, at testkit.Database, stock int64) *shop {
	t.Helper()
	s := &shop{config: actor.Config{Prefix: testkit.KeyPrefix(t), RedisAddrs: []string{testkit.Redis(t).Addr()}}}
	s.config.MySQLDSN = at.DSN
	if at.Engine == "sqlite" {
		s.config.MySQLDSN, s.config.SQLite = "", at.DSN
	}
	s.db = must[*database.DB](t)(database.Open(t.Context(), database.Config{MySQL: s.config.MySQLDSN, SQLite: s.config.SQLite}))
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ok(t, s.db.Vouchers().CreateVoucher(t.Context(), &voucher.Voucher{
		ID: onSale, Title: "on sale", Stock: stock, InitialStock: stock, BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour),
		Policy: voucher.DefaultPolicy(), CreatedAt: time.Now(),
	}))
	return s
}

func (s *shop) play(t *testing.T, name string) *actor.Actor {
	t.Helper()
	config := s.config
	config.Name = name
	return actor.Start(t, config)
}

// has checks what the database holds.
func (s *shop) has(t *testing.T, stock, orders int64) {
	t.Helper()
	audit := must[order.Audit](t)(s.db.Orders().Audit(t.Context(), onSale))
	if audit.Stock != stock || audit.Orders != orders {
		t.Errorf("the database has a stock of %d and %d orders; want %d and %d", audit.Stock, audit.Orders, stock, orders)
	}
}

func TestLostUpdateStepByStep(t *testing.T) {
	shops(t, func(t *testing.T, s *shop) {
		a, b := s.play(t, "one"), s.play(t, "two")
		ctx := soon(t)
		first := must[actor.Reading](t)(a.Read(ctx, actor.Read{Voucher: onSale, Who: "buyer 1"}))
		second := must[actor.Reading](t)(b.Read(ctx, actor.Read{Voucher: onSale}))
		if first.Stock != 3 || second.Stock != 3 {
			t.Errorf("they read %d and %d; want 3 and 3", first.Stock, second.Stock)
		}
		ok(t, a.Write(ctx, actor.Write{Tx: first.Tx, Mode: voucher.StockUnguarded, Stock: first.Stock - 1, Order: 101, User: 1}))
		ok(t, b.Write(ctx, actor.Write{Tx: second.Tx, Mode: voucher.StockUnguarded, Stock: second.Stock - 1, Order: 102, User: 2}))
		s.has(t, 2, 2)

		tx := map[int64]bool{}
		kinds := map[trace.Kind]int{}
		for _, e := range a.Events() {
			tx[e.Tx] = true
			kinds[e.Kind]++
			if e.Who != "buyer 1" {
				t.Errorf("event %+v; want buyer 1's", e)
			}
		}
		if len(tx) != 1 || kinds[trace.Read] != 1 || kinds[trace.Write] != 1 || kinds[trace.Committed] != 1 {
			t.Errorf("%d transactions, events %v; want one that reads, writes and is committed", len(tx), kinds)
		}
		if err := a.Write(ctx, actor.Write{Tx: first.Tx, Mode: voucher.StockUnguarded}); actor.KindOf(err) != actor.Invalid {
			t.Errorf("a second write: %v; want %s", err, actor.Invalid)
		}
	})
}

func TestWaysToWrite(t *testing.T) {
	shops(t, func(t *testing.T, s *shop) {
		a := s.play(t, "writer")
		ctx := soon(t)
		r := must[actor.Reading](t)(a.Read(ctx, actor.Read{Voucher: onSale}))
		ok(t, a.Write(ctx, actor.Write{Voucher: onSale, Mode: voucher.StockConditional, Order: 1, User: 1, Unique: true}))
		for want, w := range map[error]actor.Write{
			order.ErrConflict:       {Tx: r.Tx, Mode: voucher.StockVersion, Version: r.Version, Order: 2, User: 2},
			order.ErrAlreadyOrdered: {Voucher: onSale, Mode: voucher.StockConditional, Order: 3, User: 1, Unique: true},
			voucher.ErrNotFound:     {Voucher: 77, Mode: voucher.StockConditional, Order: 4, User: 4},
		} {
			if err := a.Write(ctx, w); actor.KindOf(err) != actor.KindOf(want) {
				t.Errorf("%+v: %v; want %v", w, err, want)
			}
		}
		s.has(t, 2, 1)

		older := must[actor.Grant](t)(a.Acquire(ctx, actor.Acquire{Lock: "fenced", Key: "k"}))
		ok(t, a.Release(ctx, older.Lease))
		newer := must[actor.Grant](t)(a.Acquire(ctx, actor.Acquire{Lock: "fenced", Key: "k"}))
		ok(t, a.Write(ctx, actor.Write{Voucher: onSale, Lease: newer.Lease, Mode: voucher.StockFenced, Order: 5, User: 5}))
		err := a.Write(ctx, actor.Write{Voucher: onSale, Lease: older.Lease, Deaf: true, Mode: voucher.StockFenced, Order: 6, User: 6})
		if !errors.Is(err, order.ErrStale) {
			t.Errorf("an older token: %v; want %v", err, order.ErrStale)
		}
		if err := a.Write(ctx, actor.Write{Voucher: onSale, Mode: voucher.StockFenced}); actor.KindOf(err) != actor.Invalid {
			t.Errorf("no token: %v; want %s", err, actor.Invalid)
		}
		s.has(t, 1, 2)
	})
}

func TestLossEndsWorkThatLooks(t *testing.T) {
	shops(t, func(t *testing.T, s *shop) {
		a := s.play(t, "late")
		for name, deaf := range map[string]bool{"looks": false, "is deaf": true} {
			t.Run(name, func(t *testing.T) {
				ctx := soon(t)
				g := must[actor.Grant](t)(a.Acquire(ctx, actor.Acquire{Lock: "reentrant", Key: name, TTL: 400 * time.Millisecond}))
				r := must[actor.Reading](t)(a.Read(ctx, actor.Read{Voucher: onSale, Lease: g.Lease, Deaf: deaf}))
				must[actor.Status](t)(a.AwaitLoss(ctx, g.Lease))
				err := a.Write(ctx, actor.Write{Tx: r.Tx, Mode: voucher.StockUnguarded, Stock: 2, Order: 7, User: 7})
				if deaf {
					ok(t, err)
				} else if !errors.Is(err, lock.ErrExpired) {
					t.Errorf("its write: %v; want %v", err, lock.ErrExpired)
				}
			})
		}
		s.has(t, 2, 1)
	})
}

func TestSell(t *testing.T) {
	shops(t, func(t *testing.T, s *shop) {
		a := s.play(t, "seller")
		ctx := soon(t)
		for user, mode := range map[int64]voucher.Stock{1: voucher.StockConditional, 2: voucher.StockUnguarded, 3: voucher.StockVersion} {
			g := must[actor.Grant](t)(a.Acquire(ctx, actor.Acquire{Lock: "lua", Key: "k"}))
			sold := must[actor.Sold](t)(a.Sell(ctx, actor.Sell{Voucher: onSale, User: user, Lease: g.Lease, Mode: mode, Pause: time.Millisecond}))
			if sold.Order <= 0 || sold.At < g.At {
				t.Errorf("%s: %+v", mode, sold)
			}
			ok(t, a.Release(ctx, g.Lease))
		}
		s.has(t, 0, 3)
		if _, err := a.Sell(ctx, actor.Sell{Voucher: onSale, User: 4, Mode: voucher.StockUnguarded}); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("nothing is left: %v; want %v", err, voucher.ErrSoldOut)
		}
		if _, err := a.Sell(ctx, actor.Sell{Voucher: onSale, User: 1, Mode: voucher.StockConditional}); !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("a second order: %v; want %v", err, order.ErrAlreadyOrdered)
		}
	})
}

func TestNoDatabase(t *testing.T) {
	a := play(t, "poor", testkit.KeyPrefix(t))
	if _, err := a.Read(soon(t), actor.Read{Voucher: onSale}); actor.KindOf(err) != actor.Other {
		t.Errorf("%v; want it said that there is no database", err)
	}
}
