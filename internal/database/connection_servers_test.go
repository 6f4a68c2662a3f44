package database

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The connection breaks anywhere within a whole transaction, in the request and in the answer: one that places an
// order, and one that persists a batch, which is then repeated until it is reported as persisted. Each time the orders
// and their decrements are all written or all missing, what was confirmed exists, and no transaction stays open.
func TestConnectionLostAtAnyByte(t *testing.T) {
	one := func(ctx context.Context, d *DB, id int64) error {
		return d.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(id, 1, id), true))
		})
	}
	batch := func(ctx context.Context, d *DB, id int64) error {
		all := acceptedRange(3*id, 3*id+3, 1)
		all[1].Bucket = 1
		_, err := d.AdmissionStore().Persist(ctx, all)
		return err
	}
	unit := func(ctx context.Context, d *DB, id int64) error {
		return d.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.TakeUnit(ctx, 1, -2000*(id%2)+1), tx.Insert(ctx, newOrder(id, 1, id), true)) // every other one finds none
		})
	}
	group := func(_ context.Context, d *DB, id int64) error {
		var all []order.Order
		for i := range int64(3) {
			all = append(all, newOrder(3*id+i, 1, 3*id+i))
		}
		return errors.Join(processed(d, all)...)
	}
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		for name, test := range map[string]struct {
			write  func(ctx context.Context, d *DB, id int64) error
			budget func(*byteLimit) *atomic.Int64
			step   int64
		}{
			"order, request": {one, func(w *byteLimit) *atomic.Int64 { return &w.up }, 3},
			"order, answer":  {one, func(w *byteLimit) *atomic.Int64 { return &w.down }, 1},
			"unit, request":  {unit, func(w *byteLimit) *atomic.Int64 { return &w.up }, 13},
			"unit, answer":   {unit, func(w *byteLimit) *atomic.Int64 { return &w.down }, 3},
			"group, request": {group, func(w *byteLimit) *atomic.Int64 { return &w.up }, 17},
			"group, answer":  {group, func(w *byteLimit) *atomic.Int64 { return &w.down }, 1},
			"batch, request": {batch, func(w *byteLimit) *atomic.Int64 { return &w.up }, 17},
			"batch, answer":  {batch, func(w *byteLimit) *atomic.Int64 { return &w.down }, 5},
		} {
			t.Run(name, func(t *testing.T) {
				w := newByteLimit()
				c := databaseConfig(where)
				c.MySQL, c.MaxWriters = dialThrough(t, c.MySQL, w.wrap), 1
				d := openMigrated(t, c)
				defer wipe(t, d)
				openSplitVoucher(t, d, 1, 10_000, 2)
				if strings.HasPrefix(name, "unit") {
					fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "UPDATE vouchers SET stock = stock - 1000")))
					for part := range 1000 {
						fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "INSERT INTO stock_parts (voucher_id, part, stock) VALUES (1, ?, 1)", -part)))
					}
				}
				cuts, id := 0, int64(1)
				for bytes := int64(0); ; id, bytes = id+1, bytes+test.step {
					fail.NowIf(t, d.writers.PingContext(t.Context())) // reconnects after the last cut
					test.budget(w).Store(bytes)
					err := test.write(t.Context(), d, id)
					test.budget(w).Store(unlimited)
					if err == nil {
						break // the limit is beyond the last byte
					}
					fail.Unless(t, err, order.ErrUnavailable)
					cuts++
					for again := 0; strings.HasPrefix(name, "batch") && err != nil; again++ {
						if err = test.write(t.Context(), d, id); again == 5 { // some connections of the pools are broken
							fail.NowIf(t, err)
						}
					}
				}
				if cuts < 20 {
					t.Errorf("only %d cuts", cuts)
				}
				wantNoOpenTransaction(t, d)
				audit, err := d.Orders().Audit(t.Context(), 1)
				if fail.NowIf(t, err); !audit.Balanced() {
					t.Errorf("after %d cuts: %+v", cuts, audit)
				}
				last := id
				if strings.HasPrefix(name, "group") {
					last = 3*id + 2
				}
				if strings.HasPrefix(name, "batch") {
					last = 3*id + 2
					wantEpochState(t, d, 1, contract.EpochState{Epoch: 2, Seq: []int64{last, last - 1}, Stock: 10_000 - 3*id})
				}
				fail.NowIf(t, fail.Of(d.Orders().Order(t.Context(), last)))
			})
		}
	})
}

const unlimited = 1 << 40

// byteLimit is how many bytes its connections still carry to the server (up) and from it (down) before they break.
// trips counts writes: the driver sends a command in one write and waits for its answer before the next one.
type byteLimit struct{ up, down, trips atomic.Int64 }

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
	c.byteLimit.trips.Add(1)
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
	fail.NowIf(t, err)
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

		fail.Unless(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {
			err := flushed(ctx, tx, errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(1, 1, 42), true)))
			muted.Store(true)
			return err
		}), order.ErrUnavailable)

		muted.Store(false)
		fail.NowIf(t, placeOrder(t.Context(), d, newOrder(3, 1, 44), true)) // leaves a connection in the pool
		fail.Unless(t, transact(t, d, func(ctx context.Context, tx order.Tx) error {

			err := errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(2, 1, 43), true))
			muted.Store(true)
			return err
		}), order.ErrUnavailable)

		muted.Store(false)

		wantNoOpenTransaction(t, d)
		for id := range int64(3) {
			fail.NowIf(t, fail.Of(d.Orders().Order(t.Context(), id+1)))
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

// Query, write, commit: three round trips for any number of orders and buckets.
func TestPersistTakesThreeRoundTrips(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		w := newByteLimit()
		c := databaseConfig(where)
		c.MySQL = dialThrough(t, c.MySQL, w.wrap)
		d := openMigrated(t, c)
		for buckets := int64(1); buckets <= 3; buckets++ {
			openSplitVoucher(t, d, buckets, 100, int(buckets))
			persist := func(first int64) {
				batch := acceptedRange(1000*buckets+first, 1000*buckets+first+30, buckets)
				for i := range batch {
					batch[i].Bucket = i % int(buckets)
				}
				fail.NowIf(t, fail.Of(d.AdmissionStore().Persist(t.Context(), batch)))
			}
			persist(0) // connects
			w.trips.Store(0)
			persist(30)
			fail.Unequal(t, w.trips.Load(), 3, "round trips with %d buckets", buckets)
		}
	})
}
