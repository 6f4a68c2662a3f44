package row_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestNewRefusesInvalidConfig(t *testing.T) {
	fail.Unless(t, fail.Of(row.New(nil, row.Config{})), lock.ErrInvalid, "New(nil)")
	for _, config := range []row.Config{
		{WatchdogTimeout: -time.Second},
		{WatchdogTimeout: time.Second, RenewEvery: time.Second},
		{WatchdogTimeout: time.Second, RetryEvery: time.Second},
	} {
		fail.Unless(t, fail.Of(row.New(&sql.DB{}, config)), lock.ErrInvalid, "New with %+v", config)
	}
}

// A row that is not committed is gone with its connection. The holder of such a lock would believe to have it.
func TestPoolWithoutAutocommitIsRefused(t *testing.T) {
	db := sql.OpenDB(withoutAutocommit{})
	defer db.Close()
	locker, err := row.New(db, row.Config{})
	fail.NowIf(t, err)
	defer func() { fail.If(t, locker.Close()) }()
	_, err = locker.Acquire(t.Context(), "k", lock.Options{})
	fail.Unless(t, err, lock.ErrInvalid)
	fail.Unless(t, err, mysqlio.ErrNoAutocommit)
}

// withoutAutocommit is a server that carries every statement out, and commits none by itself.
type withoutAutocommit struct{ driver.Conn }

func (s withoutAutocommit) Connect(context.Context) (driver.Conn, error) { return s, nil }

func (withoutAutocommit) Driver() driver.Driver { return nil }

func (withoutAutocommit) Close() error { return nil }

func (withoutAutocommit) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(map[bool]int64{false: 1}[strings.HasSuffix(query, " WHERE @@autocommit")]), nil
}
