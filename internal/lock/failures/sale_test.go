package failures_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/database"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// voucherID is the voucher on sale, in a database of its own for each test.
const voucherID = 7

// shop sells as the service does: its own order flow on its own store.
type shop struct {
	*order.Service
	db *database.DB
}

func openShop(ctx context.Context, dsn string, locker lock.Locker) (*shop, error) {
	db, err := database.Open(ctx, database.Config{MySQL: dsn})
	if err != nil {
		return nil, err
	}
	service, err := order.NewService(order.Config{
		Store: db.Orders(), Vouchers: catalogue{db.Vouchers()}, IDs: noIDs{}, Lockers: shelf{locker},
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Lab: true,
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &shop{service, db}, nil
}

// newShop opens a shop with one voucher.
func newShop(t *testing.T, dsn string, locker lock.Locker, stock int64, change func(*voucher.Policy)) *shop {
	t.Helper()
	s, err := openShop(t.Context(), dsn, locker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	v := &voucher.Voucher{
		ID: voucherID, Title: "t", Stock: stock, InitialStock: stock,
		BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), Policy: voucher.DefaultPolicy(), CreatedAt: now,
	}
	v.Policy.Scope, v.Policy.LockWaitMS = voucher.ScopeVoucher, patience.Milliseconds()
	change(&v.Policy)
	if err := errors.Join(v.Validate(), s.db.Vouchers().CreateVoucher(t.Context(), v)); err != nil {
		t.Fatal(err)
	}
	return s
}

// buy orders for a user. The order's id is the user's.
func (s *shop) buy(ctx context.Context, user int64) error {
	_, err := s.Place(ctx, order.Request{VoucherID: voucherID, UserID: user, ID: user})
	return err
}

func (s *shop) audit(t *testing.T) order.Audit {
	t.Helper()
	a, err := s.db.Orders().Audit(t.Context(), voucherID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// write takes one from the stock under a token.
func (s *shop) write(ctx context.Context, token uint64) error {
	return s.db.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		return errors.Join(tx.DecrementFenced(ctx, voucherID, token), tx.Flush(ctx))
	})
}

type catalogue struct{ *database.Vouchers }

func (catalogue) SoldOut(int64) {}

type noIDs struct{}

func (noIDs) NextID(context.Context) (int64, error) { return 0, errors.New("no ids here") }

type shelf struct{ locker lock.Locker }

func (s shelf) Locker(string) (lock.Locker, error) { return s.locker, nil }

// sell buys for user 1, in a process that stops itself (SIGSTOP) at the last
// moment: it has the lock, has read the stock, and has asked its context once more;
// the write is in its hands and goes out when it wakes.
func (j job) sell(ctx context.Context, l lock.Locker) error {
	config, err := mysql.ParseDSN(j.DSN)
	if err != nil {
		return err
	}
	p := &pause{long: lease}
	config.Net = "stopping"
	mysql.RegisterDialContext(config.Net, func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return stoppingConn{c, p}, err
	})
	s, err := openShop(ctx, config.FormatDSN(), witness{l, p})
	if err != nil {
		return err
	}
	err = s.buy(ctx, 1)
	fmt.Println("order:", err)
	return s.db.Close()
}

// pause is when the process stopped and woke.
type pause struct {
	long time.Duration // how long it stops at least
	woke atomic.Pointer[time.Time]
}

// stoppingConn stops the process before it sends the write of the stock.
type stoppingConn struct {
	net.Conn
	pause *pause
}

// Write implements [net.Conn].
func (c stoppingConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("UPDATE vouchers SET stock")) && c.pause.woke.Load() == nil {
		if err := c.pause.stop(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

// stop stops the process until somebody sends SIGCONT.
func (p *pause) stop() error {
	began := time.Now()
	fmt.Println("at the write")
	if err := exec.Command("sh", "-c", "kill -STOP $PPID").Run(); err != nil {
		return err
	}
	// Should the signal take effect a moment later than the command returns.
	for time.Since(began) < p.long {
		time.Sleep(time.Millisecond)
	}
	woke := time.Now()
	p.woke.Store(&woke)
	fmt.Println("woke")
	return nil
}

// witness says what a holder is told. Its leases wait with the release until that
// has happened, which in a sale is a moment after the write was answered.
type witness struct {
	lock.Locker
	pause *pause
}

// Acquire implements [lock.Locker].
func (w witness) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	held, err := w.Locker.Acquire(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	fmt.Println("token:", held.Token())
	return witnessed{held, w.pause}, nil
}

type witnessed struct {
	lock.Lease
	pause *pause
}

// Release implements [lock.Lease].
func (w witnessed) Release(ctx context.Context) error {
	lost := make(chan time.Time, 1)
	go func() {
		<-w.Lost()
		lost <- time.Now()
	}()
	select {
	case at := <-lost:
		fmt.Printf("told: %d %v\n", at.Sub(*w.pause.woke.Load()).Microseconds(), context.Cause(w.Context()))
	case <-time.After(time.Second):
		fmt.Println("not told")
	}
	err := w.Lease.Release(ctx)
	fmt.Println("release:", err)
	return err
}

// fenceToken reads what only transactions of the store speak of.
func fenceToken(t *testing.T, where testkit.Database) (token uint64) {
	t.Helper()
	db := openSQL(t, where)
	if err := db.QueryRowContext(t.Context(), "SELECT fence_token FROM vouchers WHERE id = ?", voucherID).Scan(&token); err != nil {
		t.Fatal(err)
	}
	return token
}

func openSQL(t *testing.T, where testkit.Database) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", where.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
