package database

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	migratedb "github.com/golang-migrate/migrate/v4/database"
)

// clusterLock keeps the migrations of a Galera cluster to one process. GET_LOCK does not: it locks within one node.
//
// The lock is a row with its owner and a number that the owner raises while it lives. If two processes write the row on
// two nodes, the cluster lets one commit. Another process takes the row when the number has stayed the same for many
// reads in a row. The process counts reads, and compares no clocks, because a long migration stops the writes of the
// whole cluster: while the owner cannot raise the number, the reads of the others wait as well (wsrep_sync_wait).
type clusterLock struct {
	pool  *sql.DB
	owner string
	pause time.Duration // between two reads

	beating sync.Mutex
}

// The owner raises the number after each beatEvery pauses, and is believed dead after deadAfter reads.
const (
	lockPause = 200 * time.Millisecond
	beatEvery = 5
	deadAfter = 50
)

// errLockLost says that another process has taken over.
var errLockLost = errors.New("database: another process migrates on another node")

func newClusterLock(pool *sql.DB) *clusterLock {
	return &clusterLock{pool: pool, owner: rand.Text(), pause: lockPause}
}

// take waits until the lock is this process's, or ctx ends.
func (l *clusterLock) take(ctx context.Context) error {
	seenOwner, seenBeat, reads := "", int64(-1), 0
	for {
		var owner string
		var beat int64
		err := l.pool.QueryRowContext(ctx, "SELECT owner, beat FROM schema_migrations_owner WHERE id = 1").Scan(&owner, &beat)
		switch {
		case err != nil:
			if err := l.create(ctx, err); err != nil {
				return err
			}
			continue
		case owner != seenOwner || beat != seenBeat:
			seenOwner, seenBeat, reads = owner, beat, 0
		default:
			reads++
		}
		if owner == "" || reads >= deadAfter {
			if taken, err := l.takeFrom(ctx, owner, beat); taken || err != nil {
				return err
			}
			continue
		}
		select {
		case <-time.After(l.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// create creates the table or the row whose absence caused the error of a read. Several processes may do that at once.
func (l *clusterLock) create(ctx context.Context, cause error) error {
	const noSuchTable = 1146
	e, ok := errors.AsType[*mysqldriver.MySQLError](cause)
	switch {
	case ok && e.Number == noSuchTable:
		_, err := l.pool.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations_owner (
			id INT NOT NULL PRIMARY KEY, owner VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, beat BIGINT NOT NULL) ENGINE = InnoDB`)
		return err
	case errors.Is(cause, sql.ErrNoRows):
		_, err := l.pool.ExecContext(ctx, "INSERT IGNORE INTO schema_migrations_owner (id, owner, beat) VALUES (1, '', 0)")
		return ignoreCollision(err)
	}
	return cause
}

// takeFrom takes the lock if the row is still as it was read. If the write collides with another node's, it is not.
func (l *clusterLock) takeFrom(ctx context.Context, owner string, beat int64) (taken bool, err error) {
	result, err := l.pool.ExecContext(ctx, "UPDATE schema_migrations_owner SET owner = ?, beat = beat + 1 WHERE id = 1 AND owner = ? AND beat = ?", l.owner, owner, beat)
	if err != nil {
		return false, ignoreCollision(err)
	}
	found, err := result.RowsAffected()
	return found == 1, err
}

func ignoreCollision(err error) error {
	if failureOf(err) == collision {
		return nil
	}
	return err
}

// beat raises the number, or returns errLockLost.
func (l *clusterLock) beat(ctx context.Context) error {
	l.beating.Lock() // two beats on two nodes would collide
	defer l.beating.Unlock()
	for {
		result, err := l.pool.ExecContext(ctx, "UPDATE schema_migrations_owner SET beat = beat + 1 WHERE id = 1 AND owner = ?", l.owner)
		if failureOf(err) == collision {
			continue // with one that takes the lock over: the next attempt finds that, or succeeds
		}
		if err != nil {
			return err
		}
		if found, err := result.RowsAffected(); found == 1 || err != nil {
			return err
		}
		return errLockLost
	}
}

// keep raises the number until the function that it returns is called. That function frees the lock.
func (l *clusterLock) keep(ctx context.Context) (free func() error) {
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() {
		every := time.NewTicker(beatEvery * l.pause)
		defer every.Stop()
		for {
			select {
			case <-living.Done():
				return
			case <-every.C: // an error is of no interest here: the next migration asks again before it begins
				_ = l.beat(living)
			}
		}
	})
	return func() error {
		stop()
		done.Wait()
		_, err := l.pool.ExecContext(context.WithoutCancel(ctx), "UPDATE schema_migrations_owner SET owner = '' WHERE id = 1 AND owner = ?", l.owner)
		return err
	}
}

// clusterMigrations is golang-migrate's driver, which begins no migration after the lock was lost.
type clusterMigrations struct {
	migratedb.Driver
	lock *clusterLock
}

// SetVersion implements golang-migrate's Driver. It is called with dirty before a migration.
func (m clusterMigrations) SetVersion(version int, dirty bool) error {
	if dirty {
		if err := m.lock.beat(context.Background()); err != nil {
			return fmt.Errorf("before migration %d: %w", version, err)
		}
	}
	return m.Driver.SetVersion(version, dirty)
}
