package database

import (
	"context"
	"log/slog"
	"time"
)

// Connections is how many connections the pools may open, and how many the server allows.
type Connections struct {
	Pools int
	// Server is max_connections, for all of its clients; 0 on SQLite. User is max_user_connections, for those of one
	// user; 0 is any number.
	Server, User int
}

// Connections asks the server how many connections it allows.
func (d *DB) Connections(ctx context.Context) (c Connections, err error) {
	for _, pool := range d.Pools() {
		c.Pools += pool.Stats().MaxOpenConnections
	}
	if d.galera == nil {
		return c, nil
	}
	err = d.readers.QueryRowContext(ctx, "SELECT @@max_connections, @@max_user_connections").Scan(&c.Server, &c.User)
	return c, translate(ctx, err)
}

// noConnectionPause is the pause between two attempts to get a connection where the server has none left.
const noConnectionPause = 500 * time.Millisecond

// awaitConnection calls attempt until it returns anything else than "the server has no connection left", or ctx ends.
// That shortage passes, for instance once the previous process has stopped.
func (d *DB) awaitConnection(ctx context.Context, attempt func() error) error {
	for waiting := false; ; waiting = true {
		err := attempt()
		if ClassOf(err) != TooManyConnections {
			return err
		}
		if !waiting {
			d.config.Logger.LogAttrs(ctx, slog.LevelWarn, "the database has no connection left, waiting for one", slog.Any("error", err))
		}
		select {
		case <-time.After(noConnectionPause):
		case <-ctx.Done():
			return err
		}
	}
}
