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

// The connection is lost after each byte of a whole transaction, on its way there
// and on the answer's way back. Whatever becomes of the order, its decrement shares
// its fate; what is said to be sold is there; and nothing stays open.
func TestConnectionLostAtAnyByte(t *testing.T) {
	for name, test := range map[string]struct {
		budget func(*wire) *atomic.Int64
		step   int64
	}{
		"of the request": {func(w *wire) *atomic.Int64 { return &w.up }, 3},
		"of the answer":  {func(w *wire) *atomic.Int64 { return &w.down }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			servers(t, func(t *testing.T, where testkit.Database) {
				w := newWire()
				c := configOf(where)
				c.MySQL, c.MaxWriters = through(t, c.MySQL, w.wrap), 1
				d := openMigrated(t, c)
				onSale(t, d, 1, 10_000)

				cuts := 0
				for id, bytes := int64(1), int64(0); ; id, bytes = id+1, bytes+test.step {
					wantErr(t, d.writers.PingContext(t.Context())) // connects, where the last one was cut
					test.budget(w).Store(bytes)
					err := within(t, d, func(ctx context.Context, tx order.Tx) error {
						return errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(id, 1, id), true))
					})
					test.budget(w).Store(unlimited)
					if err == nil {
						_, err = d.Orders().Order(t.Context(), id)
						wantErr(t, err)
						break // so many bytes are all there are
					}
					wantErr(t, err, order.ErrUnavailable)
					cuts++
				}
				if cuts < 20 {
					t.Errorf("only %d cuts", cuts)
				}
				noneAtWork(t, d)
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

// wire says how many bytes its connections still carry up to the server and down
// from it, before they break.
type wire struct{ up, down atomic.Int64 }

func newWire() *wire {
	w := &wire{}
	w.up.Store(unlimited)
	w.down.Store(unlimited)
	return w
}

func (w *wire) wrap(conn net.Conn) net.Conn { return &cutConn{conn, w} }

type cutConn struct {
	net.Conn
	wire *wire
}

func (c *cutConn) Write(b []byte) (int, error) {
	left := c.wire.up.Load()
	if int64(len(b)) <= left {
		c.wire.up.Add(-int64(len(b)))
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:left])
	return n, errors.Join(err, c.Close(), net.ErrClosed)
}

func (c *cutConn) Read(b []byte) (int, error) {
	left := c.wire.down.Load()
	if left <= 0 {
		return 0, errors.Join(c.Close(), io.ErrUnexpectedEOF)
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), left)])
	c.wire.down.Add(-int64(n))
	return n, err
}

// through changes a DSN so that wrap stands between the driver and its
// connections.
func through(t *testing.T, dsn string, wrap func(net.Conn) net.Conn) string {
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
