package mysqlio_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// server knows its connections and the statements of sessions. It has no locks: those are the attempts' of the tests.
type server struct {
	mu    sync.Mutex
	last  uint64
	conns map[uint64]bool
	// noAutocommit says that statements are not committed by themselves.
	noAutocommit bool
}

var (
	_ driver.Connector      = (*server)(nil)
	_ driver.ExecerContext  = (*conn)(nil)
	_ driver.QueryerContext = (*conn)(nil)
)

// pool opens a pool of a new server. In a bubble, call it from inside.
func pool(t *testing.T) (*server, *sql.DB) {
	s := &server{conns: make(map[uint64]bool)}
	db := sql.OpenDB(s)
	t.Cleanup(func() { _ = db.Close() })
	return s, db
}

func (s *server) knows(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[id]
}

// forget reports whether the server knew the connection.
func (s *server) forget(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	knew := s.conns[id]
	delete(s.conns, id)
	return knew
}

// Connect implements [driver.Connector].
func (s *server) Connect(context.Context) (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.conns[s.last] = true
	return &conn{s, s.last}, nil
}

// Driver implements [driver.Connector].
func (s *server) Driver() driver.Driver { return nil }

type conn struct {
	server *server
	id     uint64
}

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	switch id, kills := strings.CutPrefix(query, "KILL "); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !c.server.knows(c.id):
		return nil, driver.ErrBadConn
	case kills:
		n, err := strconv.ParseUint(id, 10, 64)
		if err == nil && !c.server.forget(n) {
			err = &mysql.MySQLError{Number: 1094, Message: "no such thread"}
		}
		return driver.ResultNoRows, err
	case query == "DO 1":
		return driver.ResultNoRows, nil
	}
	return nil, errors.New("not a statement of this server: " + query)
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !c.server.knows(c.id):
		return nil, driver.ErrBadConn
	case query == "SELECT CONNECTION_ID(), @@autocommit":
		return &row{int64(c.id), !c.server.noAutocommit}, nil
	case strings.HasPrefix(query, "SHOW GLOBAL STATUS"):
		return &row{"Uptime", int64(3600)}, nil
	}
	return nil, errors.New("not a query of this server: " + query)
}

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c *conn) Close() error                        { c.server.forget(c.id); return nil }

// row is a result of one row.
type row []any

func (r *row) Columns() []string { return make([]string, len(*r)) }
func (r *row) Close() error      { return nil }
func (r *row) Next(dest []driver.Value) error {
	if *r == nil {
		return io.EOF
	}
	for i, value := range *r {
		dest[i] = value
	}
	*r = nil
	return nil
}
