package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A server that answers reads keeps writes waiting, as under FLUSH TABLES WITH READ LOCK. Each caller is answered in
// time, and the server has one write to answer, not one for each caller. Closing does not wait for it.
func TestWritableWhileWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &writeServer{}
		d := server.open()
		fail.NowIf(t, d.Writable(t.Context()))
		server.wait = make(chan struct{})
		server.asked.Store(0)
		for range 4 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			began := time.Now()
			for _, err := range runAtOnce(50, func(int) error { return d.Writable(ctx) }) {
				fail.Unless(t, err, order.ErrUnavailable)
			}
			if cancel(); time.Since(began) > 2*time.Second {
				t.Errorf("answered after %v", time.Since(began))
			}
		}
		fail.Unequal(t, server.asked.Load(), 1, "writes wait")
		close(server.wait)
		synctest.Wait()
		fail.If(t, d.Writable(t.Context()), "the lock is released: ")
		server.wait = make(chan struct{})
		began := time.Now()
		go func() { _ = d.Writable(context.Background()) }()
		simulate.Sleep(time.Second)
		fail.If(t, d.Close())
		if time.Since(began) > 2*time.Second {
			t.Errorf("closing took %v", time.Since(began))
		}
	})
}

// A server that answers reads refuses writes.
func TestWritableWhileWritesAreRefused(t *testing.T) {
	for _, number := range []uint16{1290, 1792, 1114, 1047} { // read-only, twice; full; not part of its cluster
		server := &writeServer{refusal: &mysql.MySQLError{Number: number}}
		d := server.open()
		fail.Unless(t, d.Writable(t.Context()), order.ErrUnavailable)
		server.refusal = nil
		fail.If(t, d.Writable(t.Context()))
		fail.If(t, d.Close())
	}
}

// writeServer is a server that only takes writes.
type writeServer struct {
	driver.Connector
	driver.Conn
	wait    chan struct{} // closed when writes go on; nil: they need not wait
	refusal error
	asked   atomic.Int64
}

func (s *writeServer) open() *DB {
	pool := sql.OpenDB(s)
	return &DB{engine: engine{batches: true, readers: pool, writers: pool, admission: pool, singles: pool}, config: Config{}.withDefaults()}
}

func (s *writeServer) Connect(context.Context) (driver.Conn, error) { return s, nil }

func (s *writeServer) Close() error { return nil }

func (s *writeServer) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if s.asked.Add(1); !strings.HasPrefix(query, "INSERT") {
		return nil, driver.ErrSkip
	}
	if s.wait != nil {
		select {
		case <-s.wait:
		case <-ctx.Done():
			return nil, driver.ErrBadConn
		}
	}
	return driver.RowsAffected(1), s.refusal
}
