package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// sessionConnector sets the isolation level of every connection to READ COMMITTED. It does that with a statement,
// because the variable is called tx_isolation in one server and transaction_isolation in another.
//
// On a node of a Galera cluster it also makes reads wait until the node has applied what was committed on other nodes
// before. A write that begins a transaction waits likewise. Otherwise an order whose commit got no answer, a
// reservation that was made on another node, or a table that was migrated there, may seem to be missing. Each
// connection asks which kind of server it has reached, since the server behind an address can be replaced.
type sessionConnector struct {
	driver.Connector
	cluster *cluster
}

// Connect implements [driver.Connector].
func (s sessionConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	server, ok := conn.(serverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("database: the driver's connection is a %T", conn), conn.Close())
	}
	member, err := s.prepare(ctx, server)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &sessionConn{serverConn: server, member: member}, nil
}

// prepare reports whether the server is a node of a Galera cluster.
func (s sessionConnector) prepare(ctx context.Context, conn serverConn) (member bool, err error) {
	const isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	if _, err := conn.ExecContext(ctx, isolation, nil); err != nil {
		return false, err
	}
	variables, err := serverVariables(ctx, conn)
	if err != nil {
		return false, err
	}
	if isGate(variables) {
		s.cluster.sharded(ctx, variables["version"])
		return false, nil
	}
	if variables["sql_select_limit"] != noLimit { // the server's default, which has cut the answer short; a gate would cut all of them
		if _, err := conn.ExecContext(ctx, "SET SESSION sql_select_limit = "+noLimit, nil); err != nil {
			return false, err
		}
		if variables, err = serverVariables(ctx, conn); err != nil {
			return false, err
		}
	}
	if variables["wsrep_on"] != "ON" {
		return false, nil
	}
	const afterOthers = "SET SESSION wsrep_sync_wait = 7" // 1: SELECT, 2: UPDATE and DELETE, 4: INSERT and REPLACE
	if _, err := conn.ExecContext(ctx, afterOthers, nil); err != nil {
		return false, err
	}
	s.cluster.joined(ctx, variables["wsrep_cluster_name"], variables["wsrep_node_name"])
	return true, nil
}

// serverConn has the methods of the driver's connections.
type serverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// sessionConn is a connection that its pool drops once the server has refused a statement because of the session's
// state. A session keeps the privileges and the read-only setting with which it began, even after those of the server
// were corrected.
//
// On a node of a Galera cluster it repeats a read that could not wait for the other nodes' commits.
type sessionConn struct {
	serverConn
	member   bool // of a cluster
	outdated bool
}

// ExecContext implements [driver.ExecerContext].
func (c *sessionConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.serverConn.ExecContext(ctx, query, args)
	c.checkOutdated(err)
	return result, err
}

// QueryContext implements [driver.QueryerContext].
func (c *sessionConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	began := time.Now()
	for n := 1; ; n++ {
		rows, err := c.serverConn.QueryContext(ctx, query, args)
		c.checkOutdated(err)
		if !c.member || !couldNotSync(query, err) || n == syncAttempts || time.Since(began) >= syncFor || backoff(ctx, n) != nil {
			return rows, err
		}
	}
}

// syncAttempts bounds the attempts of a read. Their pauses add up to most of a second. No attempt begins after syncFor:
// on a node that applies nothing each attempt waits for as long as repl.causal_read_timeout says.
const (
	syncAttempts = 15
	syncFor      = time.Second
)

// couldNotSync reports whether a read failed because the node could not wait for the other nodes' commits. While
// members of the cluster leave or come back, a node refuses that for some milliseconds, as error 1205, although it
// serves. A read that locks no rows never has that error for another reason.
func couldNotSync(query string, err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == 1205 && strings.HasPrefix(query, "SELECT") && !strings.Contains(query, "FOR UPDATE")
}

// Close implements [driver.Conn]. If the server is gone and cannot be told, Close returns no error: the connection is
// closed, and [sql.DB.Close] would report the error as a failure of the pool.
func (c *sessionConn) Close() error {
	_ = c.serverConn.Close()
	return nil
}

// IsValid implements [driver.Validator].
func (c *sessionConn) IsValid() bool { return !c.outdated && c.serverConn.IsValid() }

func (c *sessionConn) checkOutdated(err error) {
	if err == nil {
		return
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		c.outdated = c.outdated || boundToSession(e.Number)
	}
}

// boundToSession reports whether an error can be caused by the state of one session.
func boundToSession(number uint16) bool {
	switch number {
	case 1044, // ER_DBACCESS_DENIED_ERROR
		1142, // ER_TABLEACCESS_DENIED_ERROR
		1143, // ER_COLUMNACCESS_DENIED_ERROR
		1227, // ER_SPECIFIC_ACCESS_DENIED_ERROR
		1370, // ER_PROCACCESS_DENIED_ERROR
		1792: // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
		return true
	}
	return false
}
