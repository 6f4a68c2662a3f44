package lockclient_test

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/database"
	"seckill/internal/lab/lockclient"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// shop is a database with a voucher on sale, and what a client needs to use it.
type shop struct {
	db     *database.DB
	config lockclient.Config
}

const onSale = 1 // the voucher

func shops(t *testing.T, test func(t *testing.T, s *shop)) {
	for name, open := range map[string]func(testkit.TB) testkit.Database{"sqlite": testkit.SQLite, "mariadb": testkit.MariaDB} {
		t.Run(name, func(t *testing.T) { test(t, newShop(t, open(t), 3)) })
	}
}

func newShop(t *testing.T, at testkit.Database, stock int64) *shop {
	t.Helper()
	s := &shop{config: lockclient.Config{Prefix: testkit.KeyPrefix(t), RedisAddrs: []string{testkit.Redis(t).Addr()}}}
	s.config.MySQLDSN = at.DSN
	if at.Engine == "sqlite" {
		s.config.MySQLDSN, s.config.SQLite = "", at.DSN
	}
	s.db = must[*database.DB](t)(database.Open(t.Context(), database.Config{MySQL: s.config.MySQLDSN, SQLite: s.config.SQLite}))
	t.Cleanup(func() {
		fail.If(t, s.db.Close())
	})
	fail.NowIf(t, fail.Of(s.db.Migrate(t.Context())))
	ok(t, s.db.Vouchers().CreateVoucher(t.Context(), &voucher.Voucher{
		ID: onSale, Title: "on sale", Stock: stock, InitialStock: stock, BeginAt: time.Now(), EndAt: time.Now().Add(time.Hour),
		Policy: voucher.DefaultPolicy(), CreatedAt: time.Now(),
	}))
	return s
}

func (s *shop) play(t *testing.T, name string) *lockclient.Client {
	t.Helper()
	config := s.config
	config.Name = name
	return lockclient.Start(t, config)
}

// has checks what the database holds.
func (s *shop) has(t *testing.T, stock, orders int64) {
	t.Helper()
	audit := must[order.Audit](t)(s.db.Orders().Audit(t.Context(), onSale))
	if audit.Stock != stock || audit.Orders != orders {
		t.Errorf("the database has a stock of %d and %d orders; want %d and %d", audit.Stock, audit.Orders, stock, orders)
	}
}

func TestWaysToWrite(t *testing.T) {
	shops(t, func(t *testing.T, s *shop) {
		c := s.play(t, "writer")
		ctx := soon(t)
		r := must[lockclient.Reading](t)(c.Read(ctx, lockclient.Read{Voucher: onSale}))
		ok(t, c.Write(ctx, lockclient.Write{Voucher: onSale, Mode: voucher.StockConditional, Order: 1, User: 1, Unique: true}))
		for want, w := range map[error]lockclient.Write{
			order.ErrConflict:       {Tx: r.Tx, Mode: voucher.StockVersion, Version: r.Version, Order: 2, User: 2},
			order.ErrAlreadyOrdered: {Voucher: onSale, Mode: voucher.StockConditional, Order: 3, User: 1, Unique: true},
			voucher.ErrNotFound:     {Voucher: 77, Mode: voucher.StockConditional, Order: 4, User: 4},
		} {
			if err := c.Write(ctx, w); lockclient.KindOf(err) != lockclient.KindOf(want) {
				t.Errorf("%+v: %v; want %v", w, err, want)
			}
		}
		s.has(t, 2, 1)

		older := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "fenced", Key: "k"}))
		ok(t, c.Release(ctx, older.Lease))
		newer := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "fenced", Key: "k"}))
		ok(t, c.Write(ctx, lockclient.Write{Voucher: onSale, Lease: newer.Lease, Mode: voucher.StockFenced, Order: 5, User: 5}))
		err := c.Write(ctx, lockclient.Write{Voucher: onSale, Lease: older.Lease, IgnoreLoss: true, Mode: voucher.StockFenced, Order: 6, User: 6})
		if !errors.Is(err, order.ErrStale) {
			t.Errorf("an older token: %v; want %v", err, order.ErrStale)
		}
		if err := c.Write(ctx, lockclient.Write{Voucher: onSale, Mode: voucher.StockFenced}); lockclient.KindOf(err) != lockclient.Invalid {
			t.Errorf("no token: %v; want %s", err, lockclient.Invalid)
		}
		s.has(t, 1, 2)
	})
}

func TestSell(t *testing.T) {
	shops(t, func(t *testing.T, s *shop) {
		c := s.play(t, "seller")
		ctx := soon(t)
		for user, mode := range map[int64]voucher.Stock{1: voucher.StockConditional, 2: voucher.StockUnguarded, 3: voucher.StockVersion} {
			g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "lua", Key: "k"}))
			sold := must[lockclient.Sold](t)(c.Sell(ctx, lockclient.Sell{Voucher: onSale, User: user, Lease: g.Lease, Mode: mode, Pause: time.Millisecond}))
			if sold.Order <= 0 || sold.At < g.At {
				t.Errorf("%s: %+v", mode, sold)
			}
			ok(t, c.Release(ctx, g.Lease))
		}
		s.has(t, 0, 3)
		if _, err := c.Sell(ctx, lockclient.Sell{Voucher: onSale, User: 4, Mode: voucher.StockUnguarded}); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("nothing is left: %v; want %v", err, voucher.ErrSoldOut)
		}
		if _, err := c.Sell(ctx, lockclient.Sell{Voucher: onSale, User: 1, Mode: voucher.StockConditional}); !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("a second order: %v; want %v", err, order.ErrAlreadyOrdered)
		}
	})
}

func TestNoDatabase(t *testing.T) {
	c := play(t, "poor", testkit.KeyPrefix(t))
	if _, err := c.Read(soon(t), lockclient.Read{Voucher: onSale}); lockclient.KindOf(err) != lockclient.Other {
		t.Errorf("%v; want it said that there is no database", err)
	}
}
