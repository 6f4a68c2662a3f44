package database

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// The connection breaks after each byte of a whole transaction, in the request and in the answer. Each
// time the order and its decrement are both written or both missing, an order that was confirmed
// exists, and no transaction stays open.
func TestConnectionLostAtAnyByte(t *testing.T) {
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

// The COMMIT is carried out and its reply is lost. The caller must be told that the outcome is unknown.
func TestCommitWithoutAReply(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		var muted atomic.Bool
		c := databaseConfig(where)
		c.MySQL = dialThrough(t, c.MySQL, func(conn net.Conn) net.Conn { return &mutedConn{conn, &muted} })
		c.EndTimeout, c.LockWait = 200*time.Millisecond, time.Second
		d := openMigrated(t, c)
		createVoucher(t, d, 1, 5)

		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			err := flushed(ctx, tx, errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(1, 1, 42), true)))
			muted.Store(true)
			return err
		}), order.ErrUnavailable)
		muted.Store(false)
		wantErr(t, placeOrder(t.Context(), d, newOrder(3, 1, 44), true)) // leaves a connection in the pool
		wantErr(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			// Both go out with the commit, in one round trip.
			err := errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(2, 1, 43), true))
			muted.Store(true)
			return err
		}), order.ErrUnavailable)
		muted.Store(false)

		wantNoOpenTransaction(t, d)
		for id := range int64(3) {
			_, err := d.Orders().Order(t.Context(), id+1)
			wantErr(t, err)
		}
		wantAudit(t, d, order.Audit{InitialStock: 5, Stock: 2, Orders: 3, DistinctUsers: 3})
	})
}

// mutedConn drops what the server sends while muted is set.
type mutedConn struct {
	net.Conn
	muted *atomic.Bool
}

func (c *mutedConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.muted.Load() {
			return n, err
		}
	}
}

// The connection breaks at any byte, and the batch is repeated until it is reported as persisted. It is
// stored exactly once.
func TestPersistWhoseReplyWasLost(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		w := newByteLimit()
		c := databaseConfig(where)
		c.MySQL, c.MaxWriters, c.MaxReaders = dialThrough(t, c.MySQL, w.wrap), 1, 1
		d := openMigrated(t, c)
		openSplitVoucher(t, d, 1, 10_000, 2)
		cuts, first := 0, int64(1)
		for _, budget := range []*atomic.Int64{&w.up, &w.down} {
			for bytes := int64(0); bytes < 1200; bytes += 17 {
				batch := acceptedRange(first, first+3, 1)
				batch[1].Bucket = 1
				first += 3
				budget.Store(bytes)
				_, err := d.AdmissionStore().Persist(t.Context(), batch)
				budget.Store(unlimited)
				if err != nil {
					wantErr(t, err, order.ErrUnavailable)
					cuts++
				}
				states, err := d.AdmissionStore().Persist(t.Context(), batch)
				for errors.Is(err, order.ErrUnavailable) { // a connection that was broken before
					states, err = d.AdmissionStore().Persist(t.Context(), batch)
				}
				allStates(t, states, err, 3, order.Confirmed)
			}
		}
		if cuts < 20 {
			t.Errorf("only %d cuts", cuts)
		}
		wantEpochState(t, d, 1, order.EpochState{Epoch: 2, Seq: []int64{first - 1, first - 2}, Stock: 10_001 - first})
		wantAudit(t, d, order.Audit{InitialStock: 10_000, Stock: 10_001 - first, Orders: first - 1, DistinctUsers: first - 1})
		wantNoOpenTransaction(t, d)
	})
}

// Query, write, commit: three round trips for any number of orders and buckets.
func TestPersistTakesThreeRoundTrips(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		var trips atomic.Int64
		c := databaseConfig(where)
		c.MySQL = dialThrough(t, c.MySQL, func(conn net.Conn) net.Conn { return &countingConn{conn, &trips} })
		d := openMigrated(t, c)
		for buckets := int64(1); buckets <= 3; buckets++ {
			openSplitVoucher(t, d, buckets, 100, int(buckets))
			persist := func(first int64) {
				batch := acceptedRange(1000*buckets+first, 1000*buckets+first+30, buckets)
				for i := range batch {
					batch[i].Bucket = i % int(buckets)
				}
				_, err := d.AdmissionStore().Persist(t.Context(), batch)
				wantErr(t, err)
			}
			persist(0) // connects
			trips.Store(0)
			persist(30)
			if n := trips.Load(); n != 3 {
				t.Errorf("%d round trips with %d buckets, want 3", n, buckets)
			}
		}
	})
}

// countingConn counts writes: the driver sends a command in one write and waits for its answer before the
// next one.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}
