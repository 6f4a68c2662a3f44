package database

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// syncBuffer is a buffer that one goroutine writes while another reads it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A user that has all its connections open already, and a server that has: a start waits for one, and so does a
// migration.
func TestStartWaitsForAConnection(t *testing.T) {
	server := testkit.NewMariaDB(t)
	where := server.Database(t)
	root := open(t, databaseConfig(where)).Pools()["readers"]
	for _, query := range []string{"CREATE USER few", "GRANT ALL ON *.* TO few", "ALTER USER few WITH MAX_USER_CONNECTIONS 2"} {
		fail.NowIf(t, fail.Of(root.ExecContext(t.Context(), query)))
	}
	few := func(log *slog.Logger) Config {
		return Config{MySQL: strings.Replace(where.DSN, "root@", "few@", 1), MaxReaders: 1, MaxWriters: 1, MaxLocks: 1, Logger: log}
	}
	var logs syncBuffer
	log := slog.New(slog.NewTextHandler(&logs, nil))
	d := open(t, few(log)) // has one connection
	hold := func() (release func()) {
		d.Pools()["writers"].SetMaxIdleConns(-1)
		var conn *sql.Conn
		testkit.Until(t, "the server has noticed that the attempt before has left", func() bool {
			c, err := d.Pools()["writers"].Conn(t.Context())
			conn = c
			return err == nil
		})
		return func() { fail.NowIf(t, conn.Close()) }
	}
	for name, attempt := range map[string]func() error{
		"a start": func() error {
			another, err := Open(t.Context(), few(log))
			if err != nil {
				return err
			}
			return another.Close()
		},
		"a migration": func() error { return fail.Of(d.Migrate(t.Context())) },
	} {
		release := hold()
		said := len(logs.String())
		done := make(chan error, 1)
		go func() { done <- attempt() }()
		testkit.Until(t, name+" says that it waits", func() bool { return strings.Contains(logs.String()[said:], "no connection left") || len(done) > 0 })
		select {
		case err := <-done:
			t.Fatalf("%s did not wait: %v", name, err)
		default:
		}
		release()
		fail.NowIf(t, <-done)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer hold()()
	cancel()
	if _, err := Open(ctx, few(log)); err == nil {
		t.Error("a start that was cancelled has succeeded")
	}
}
