package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"seckill/internal/database"
)

// mysqlConfig is the configuration of the database besides its DSN. A number of connections that is 0 is the default of
// [database.Config].
type mysqlConfig struct {
	TLS                     tlsConfig
	Readers, Writers, Locks int
}

// maxPool is more connections than a server should have of one process.
const maxPool = 10_000

func mysqlSettings() []setting {
	pool := func(name, what string, standard int, of func(*Config) *int) setting {
		return setting{name: name, arg: "number", usage: fmt.Sprintf("connections to the database %s, 1 to %d (default %d)", what, maxPool, standard),
			set: func(c *Config, v string) (err error) { *of(c), err = parseNumber(v, 1, maxPool); return err }}
	}
	return append([]setting{
		pool("mysql-readers", "for reads and single statements", database.DefaultReaders, func(c *Config) *int { return &c.MySQL.Readers }),
		pool("mysql-writers", "for transactions, a quarter of them for the admission flow", database.DefaultWriters, func(c *Config) *int { return &c.MySQL.Writers }),
		pool("mysql-locks", "for locks that are kept there", database.DefaultLocks, func(c *Config) *int { return &c.MySQL.Locks }),
	}, tlsSettings("mysql", "the database", func(c *Config) *tlsConfig { return &c.MySQL.TLS })...)
}

// openDatabase connects to the database that is configured.
func openDatabase(ctx context.Context, cfg Config, sqlite string, log *slog.Logger) (*database.DB, error) {
	encrypted, err := cfg.MySQL.TLS.load("SECKILL_MYSQL_TLS")
	if err != nil {
		return nil, err
	}
	db, err := database.Open(ctx, database.Config{
		MySQL: cfg.MySQLDSN, SQLite: sqlite, TLS: encrypted, Logger: log,
		MaxReaders: cfg.MySQL.Readers, MaxWriters: cfg.MySQL.Writers, MaxLocks: cfg.MySQL.Locks,
	})
	if err != nil {
		return nil, fmt.Errorf("SECKILL_MYSQL_DSN: %w", certificateHint("SECKILL_MYSQL_TLS", err))
	}
	return db, nil
}

// warnConnections logs a warning if the pools of this process may open more connections than the database allows. Those
// of other processes come on top of it.
func warnConnections(ctx context.Context, db *database.DB, log *slog.Logger) {
	c, err := db.Connections(ctx)
	switch {
	case err != nil:
		log.Warn("the number of connections that the database allows is unknown", "error", err)
	case c.Server > 0 && c.Pools > min(c.Server, cmp.Or(c.User, c.Server)):
		log.Warn("the pools of this process may open more connections than the database allows: under load, requests will fail that find none",
			"pools", c.Pools, "max_connections", c.Server, "max_user_connections", c.User,
			"variables", "SECKILL_MYSQL_READERS, SECKILL_MYSQL_WRITERS, SECKILL_MYSQL_LOCKS")
	}
}
