package mysqlio

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lock"
)

// Session is a connection with the number by which the server knows it. It runs one statement at a time, and none after
// a statement without an answer. A statement that its context kept from being sent leaves the connection usable, but a
// lock that is won on it later would belong to a session that has been given up.
type Session struct {
	db     *sql.DB
	conn   *sql.Conn
	id     uint64
	opened time.Time
	broken bool
}

// maxStale is how many dead connections of the pool are discarded in a row.
const maxStale = 10

// open takes a connection from the pool that answers. It returns [ErrNoAutocommit] if the pool does not suit.
func open(ctx context.Context, db *sql.DB) (*Session, error) {
	var failure error
	for range maxStale {
		opened := time.Now()
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(err, failure)
		}
		s := &Session{db: db, conn: conn, opened: opened}
		var commits bool
		failure = s.Scan(ctx, []any{&s.id, &commits}, "SELECT CONNECTION_ID(), @@autocommit")
		switch {
		case failure == nil && commits:
			return s, nil
		case failure == nil:
			s.returnToPool(ctx)
			return nil, ErrNoAutocommit
		}
		s.discard()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failure
}

// ID returns the server's number of the connection.
func (s *Session) ID() uint64 { return s.id }

// Exec runs a statement. It returns [driver.ErrBadConn] after one without an answer.
func (s *Session) Exec(ctx context.Context, query string, args ...any) error {
	if s.broken {
		return driver.ErrBadConn
	}
	_, err := s.conn.ExecContext(ctx, query, args...)
	return s.noteError(err)
}

// Scan runs a query of one row. It returns [sql.ErrNoRows] if there is none, and [driver.ErrBadConn] after a statement
// without an answer.
func (s *Session) Scan(ctx context.Context, dest []any, query string, args ...any) error {
	if s.broken {
		return driver.ErrBadConn
	}
	return s.noteError(s.conn.QueryRowContext(ctx, query, args...).Scan(dest...))
}

// noteError records whether the connection can be used after err, and returns err.
func (s *Session) noteError(err error) error {
	if err != nil && !Answered(err) && !errors.Is(err, sql.ErrNoRows) {
		s.broken = true
	}
	return err
}

// dead reports, without a round trip, whether the server has closed the connection.
func (s *Session) dead(ctx context.Context) bool {
	if s.broken {
		return true
	}
	err := s.conn.Raw(func(c any) error {
		if r, ok := c.(driver.SessionResetter); ok && r.ResetSession(ctx) != nil {
			return driver.ErrBadConn
		}
		return nil
	})
	s.broken = err != nil
	return s.broken
}

// returnToPool returns a clean connection to the pool, and ends one that is broken.
func (s *Session) returnToPool(ctx context.Context) {
	if s.broken {
		_ = s.terminate(ctx) // the server will notice the end itself
		return
	}
	_ = s.conn.Close()
}

// discard closes the connection for good.
func (s *Session) discard() {
	s.broken = true
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

// terminate closes the connection and makes sure that the server has closed it too. An error means that this is not
// known.
func (s *Session) terminate(ctx context.Context) error {
	s.discard()
	return s.kill(ctx)
}

// kill ends the connection from another one. It returns nil when it is gone.
func (s *Session) kill(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	defer conn.Close()
	var name string
	var uptime int64
	if err := conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(&name, &uptime); err != nil {
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	}
	if time.Since(s.opened) > time.Duration(uptime+1)*time.Second {
		return nil // the server restarted since: the number may belong to another connection now
	}
	return killThread(ctx, conn, s.id)
}

// killThread ends a connection by its number and returns nil when it is gone. KILL only requests the end, so it is
// repeated until the server no longer knows the number.
func killThread(ctx context.Context, conn *sql.Conn, id uint64) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
		switch {
		case number(err) == noSuchThread:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", lock.ErrUnavailable, ctx.Err())
		}
	}
}
