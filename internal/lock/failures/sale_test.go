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

// voucherID is the voucher on sale. Each test has its own database.
const voucherID = 7

// shop sells with the order flow and the store of the service.
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
		Store: db.Orders(), Vouchers: catalogue{db.Vouchers()}, IDs: noIDs{}, Lockers: oneLocker{locker},
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

// buy places an order for a user. The id of the order is that of the user.
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

// write decrements the stock with a token.
func (s *shop) write(ctx context.Context, token uint64) error {
	return s.db.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
		return errors.Join(tx.DecrementFenced(ctx, voucherID, token), tx.Flush(ctx))
	})
}

type catalogue struct{ *database.Vouchers }

func (catalogue) SoldOut(int64) {}

type noIDs struct{}

func (noIDs) NextID(context.Context) (int64, error) { return 0, errors.New("the tests set the ids") }

type oneLocker struct{ locker lock.Locker }

func (o oneLocker) Locker(string) (lock.Locker, error) { return o.locker, nil }

// sell buys for user 1 in a process that stops itself (SIGSTOP) at the last moment: it has
// the lock, has read the stock and has checked its context once more. It sends the write
// when it wakes.
func (j job) sell(ctx context.Context, l lock.Locker) error {
	config, err := mysql.ParseDSN(j.DSN)
	if err != nil {
		return err
	}
	p := &pause{atLeast: lease}
	config.Net = "stopping"
	mysql.RegisterDialContext(config.Net, func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		return stoppingConn{c, p}, err
	})
	s, err := openShop(ctx, config.FormatDSN(), noticePrinter{l, p})
	if err != nil {
		return err
	}
	err = s.buy(ctx, 1)
	fmt.Println("order:", err)
	return s.db.Close()
}

// pause stops the process once and records when it woke.
type pause struct {
	atLeast time.Duration
	woke    atomic.Pointer[time.Time]
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

// stop stops the process until it gets SIGCONT.
func (p *pause) stop() error {
	began := time.Now()
	fmt.Println("at the write")
	if err := exec.Command("sh", "-c", "kill -STOP $PPID").Run(); err != nil {
		return err
	}
	// The signal may take effect a moment after the command has returned.
	for time.Since(began) < p.atLeast {
		time.Sleep(time.Millisecond)
	}
	woke := time.Now()
	p.woke.Store(&woke)
	fmt.Println("woke")
	return nil
}

// noticePrinter prints what a holder is told. Its leases delay the release until the holder
// has been told, which in a sale is a moment after the answer to the write.
type noticePrinter struct {
	lock.Locker
	pause *pause
}

// Acquire implements [lock.Locker].
func (n noticePrinter) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	held, err := n.Locker.Acquire(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	fmt.Println("token:", held.Token())
	return printedLease{held, n.pause}, nil
}

type printedLease struct {
	lock.Lease
	pause *pause
}

// Release implements [lock.Lease].
func (p printedLease) Release(ctx context.Context) error {
	lost := make(chan time.Time, 1)
	go func() {
		<-p.Lost()
		lost <- time.Now()
	}()
	select {
	case at := <-lost:
		fmt.Printf("told: %d %v\n", at.Sub(*p.pause.woke.Load()).Microseconds(), context.Cause(p.Context()))
	case <-time.After(time.Second):
		fmt.Println("not told")
	}
	err := p.Lease.Release(ctx)
	fmt.Println("release:", err)
	return err
}

// fenceToken reads the newest token that the database has seen.
func fenceToken(t *testing.T, where testkit.Database) (token uint64) {
	t.Helper()
	db := openSQL(t, where)
	if err := db.QueryRowContext(t.Context(), "SELECT fence_token FROM vouchers WHERE id = ?",
		voucherID).Scan(&token); err != nil {
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
