package database

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// The connection breaks after each byte of a whole transaction, in the request and in the answer. Each
// time the order and its decrement are both written or both missing, an order that was confirmed
// exists, and no transaction stays open.
func TestConnectionLostAtAnyByte(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		budget func(*byteLimit) *atomic.Int64
		step   int64
	}{
		"of the request": {func(w *byteLimit) *atomic.Int64 { return &w.up }, 3},
		"of the answer":  {func(w *byteLimit) *atomic.Int64 { return &w.down }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
				w := newByteLimit()
				c := databaseConfig(where)
				c.MySQL, c.MaxWriters = dialThrough(t, c.MySQL, w.wrap), 1
				d := openMigrated(t, c)
				createVoucher(t, d, 1, 10_000)

				cuts := 0
				for id, bytes := int64(1), int64(0); ; id, bytes = id+1, bytes+test.step {
					wantErr(t, d.writers.PingContext(t.Context())) // reconnects after the last cut
					test.budget(w).Store(bytes)
					err := transact(t, d, func(ctx context.Context, tx order.Tx) error {
						return errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(id, 1, id), true))
					})
					test.budget(w).Store(unlimited)
					if err == nil {
						_, err = d.Orders().Order(t.Context(), id)
						wantErr(t, err)
						break // the limit is beyond the last byte
					}
					wantErr(t, err, order.ErrUnavailable)
					cuts++
				}
				if cuts < 20 {
					t.Errorf("only %d cuts", cuts)
				}
				wantNoOpenTransaction(t, d)
				audit, err := d.Orders().Audit(t.Context(), 1)
				wantErr(t, err)
				if !audit.Balanced() {
					t.Errorf("after %d cuts: %+v", cuts, audit)
				}
			})
		})
	}
}

const unlimited = 1 << 40

// byteLimit is how many bytes its connections still carry to the server (up) and from it (down) before
// they break.
type byteLimit struct{ up, down atomic.Int64 }

func newByteLimit() *byteLimit {
	w := &byteLimit{}
	w.up.Store(unlimited)
	w.down.Store(unlimited)
	return w
}

func (w *byteLimit) wrap(conn net.Conn) net.Conn { return &limitedConn{conn, w} }

type limitedConn struct {
	net.Conn
	byteLimit *byteLimit
}

func (c *limitedConn) Write(b []byte) (int, error) {
	left := c.byteLimit.up.Load()
	if int64(len(b)) <= left {
		c.byteLimit.up.Add(-int64(len(b)))
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:left])
	return n, errors.Join(err, c.Close(), net.ErrClosed)
}

func (c *limitedConn) Read(b []byte) (int, error) {
	left := c.byteLimit.down.Load()
	if left <= 0 {
		return 0, errors.Join(c.Close(), io.ErrUnexpectedEOF)
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), left)])
	c.byteLimit.down.Add(-int64(n))
	return n, err
}

// dialThrough changes a DSN so that wrap wraps the driver's connections.
func dialThrough(t *testing.T, dsn string, wrap func(net.Conn) net.Conn) string {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	wantErr(t, err)
	network := "test-" + config.DBName
	mysql.RegisterDialContext(network, func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	})
	t.Cleanup(func() { mysql.DeregisterDialContext(network) })
	config.Net = network
	return config.FormatDSN()
}
