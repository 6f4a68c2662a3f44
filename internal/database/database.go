package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// DB is an open database. It is safe for use by several goroutines.
type DB struct {
	engine
	config Config
	// rows maps rows for reads outside a transaction, single for writes of one statement; on SQLite only the writer may
	// write.
	rows   *gorm.DB
	single *gorm.DB
	prices prices
	// writing is the write of [DB.Writable].
	writing sharedWrite
	groups  groups
}

// engine is what differs between MySQL and SQLite.
type engine struct {
	name string // "mysql" or "sqlite"
	// readers serves reads, writers transactions. Those of admission have a pool of their own, as requests that wait
	// for a locked row can occupy all writers; SQLite has one writer for both.
	readers, writers, admission *sql.DB
	// singles serves writes of one statement, which commit by themselves: the readers' pool on MySQL, the writer on
	// SQLite.
	singles *sql.DB
	// locks serves the locks that are kept in the database, on connections of their own; nil on SQLite.
	locks *sql.DB
	// begin is the statement that begins a transaction; empty if the session is always in one.
	begin string
	// batches says that a writer can run several statements in one round trip.
	batches bool
	// insertIgnore begins an INSERT that leaves out duplicate rows.
	insertIgnore string
	// galera is what the connections have found behind the address, such as a Galera cluster; nil on SQLite.
	galera *cluster
	// dialector maps rows over a pool.
	dialector func(pool *sql.DB) gorm.Dialector
	// useIndex follows the name of a table in a statement that must use an index.
	useIndex string
	// sweep is the statement that deletes the oldest idempotency keys. Its parameters are a time and a limit.
	sweep string
	// migrator returns a connection for golang-migrate, with a lock against other migrations.
	migrator func(ctx context.Context) (migrator, error)
}

// Open connects to the database of c. It checks that the database answers, and that sessions keep what is set in them
// ([ErrUnsuitable]). It does not touch the schema; see [DB.Migrate].
func Open(ctx context.Context, c Config) (*DB, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	open := openMySQL
	if c.SQLite != "" {
		open = openSQLite
	}
	e, err := open(c)
	if err != nil {
		return nil, err
	}
	d := &DB{engine: e, config: c}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("database: open %s: %w", e.name, err), d.Close())
	}
	return d, nil
}

func (d *DB) start(ctx context.Context) error {
	for _, pool := range d.Pools() {
		pool.SetConnMaxLifetime(d.config.ConnMaxLifetime)
		pool.SetConnMaxIdleTime(d.config.ConnMaxIdleTime)
	}
	// Two processes that open a new SQLite file at once can collide while they switch it to its write-ahead log.
	ping := func() error { return d.retry(ctx, func() error { return d.Ping(ctx) }) }
	err := d.awaitConnection(ctx, func() error { return d.checkSessions(ctx) })
	if err == nil {
		err = d.awaitConnection(ctx, ping)
	}
	if err != nil {
		return err
	}
	if d.rows, err = d.mapper(d.readers); err != nil {
		return err
	}
	d.single = d.rows
	if d.singles != d.readers {
		d.single, err = d.mapper(d.singles)
	}
	return err
}

// mapper returns gorm over a pool, without the features that are not needed here: a transaction around each single
// write, prepared statements, gorm's own ping.
func (d *DB) mapper(pool *sql.DB) (*gorm.DB, error) {
	return gorm.Open(d.dialector(pool), &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 &statementLog{log: d.config.Logger, slow: d.config.SlowQuery},
	})
}

// Ping asks the database for an answer, or returns [order.ErrUnavailable].
func (d *DB) Ping(ctx context.Context) error {
	var one int
	return translate(ctx, d.readers.QueryRowContext(ctx, "SELECT 1").Scan(&one))
}

// Engine returns "mysql" (for MariaDB too) or "sqlite".
func (d *DB) Engine() string { return d.name }

// Pools returns the connection pools by name, for metrics.
func (d *DB) Pools() map[string]*sql.DB {
	pools := map[string]*sql.DB{"readers": d.readers, "writers": d.writers}
	if d.admission != d.writers {
		pools["admission"] = d.admission
	}
	if d.locks != nil {
		pools["locks"] = d.locks
	}
	return pools
}

// LockPool is the pool for locks that are kept in the database. Each lock that is held or waited for may occupy a
// connection, so these locks have a pool of their own. It is nil for SQLite and Vitess.
func (d *DB) LockPool() *sql.DB {
	if d.vitess() {
		return nil
	}
	return d.locks
}

// RowPool is the pool for locks that are rows. Such locks run short statements and keep no connection in between. It is
// nil for SQLite.
func (d *DB) RowPool() *sql.DB {
	if d.locks == nil {
		return nil
	}
	return d.readers
}

// Close closes every connection, after the running transactions.
func (d *DB) Close() error {
	d.groups.end()
	d.writing.end()
	var failed []error
	for _, pool := range d.Pools() {
		failed = append(failed, pool.Close())
	}
	return errors.Join(failed...)
}

// Vouchers returns the store of vouchers.
func (d *DB) Vouchers() *Vouchers { return &Vouchers{d} }

// Orders returns the store of orders.
func (d *DB) Orders() *Orders { return &Orders{d} }

// AdmissionStore returns the store of accepted orders.
func (d *DB) AdmissionStore() *AdmissionStore { return &AdmissionStore{db: d} }

// Idempotency returns the store of idempotency keys.
func (d *DB) Idempotency() *Idempotency { return &Idempotency{d} }
