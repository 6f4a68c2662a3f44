package database

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Whatever a server does by default, and for each new connection, what was answered is committed.
func TestServerWithoutAutocommit(t *testing.T) {
	server := testkit.NewMariaDB(t, "--autocommit=0", "--completion-type=CHAIN")
	where := server.Database(t)
	root := open(t, databaseConfig(where)).Pools()["readers"]
	for _, query := range []string{
		"CREATE USER seckill", "GRANT ALL ON *.* TO seckill", // the statements of init_connect are not for root
		"SET GLOBAL init_connect = 'SET autocommit = 0, sql_safe_updates = 1, unique_checks = 0, sql_select_limit = 1'",
	} {
		fail.NowIf(t, fail.Of(root.ExecContext(t.Context(), query)))
	}
	where.DSN = strings.Replace(where.DSN, "root@", "seckill@", 1)
	d := openMigrated(t, databaseConfig(where))
	createVoucher(t, d, 1, 10)
	fail.NowIf(t, placeOrder(t.Context(), d, newOrder(11, 1, 42), true))
	server.Restart() // what was not committed is gone
	var limit string
	fail.NowIf(t, d.readers.QueryRowContext(t.Context(), "SELECT @@sql_select_limit").Scan(&limit))
	fail.Unequal(t, limit, noLimit, "sql_select_limit")
	var vouchers, orders int
	testkit.Until(t, "the database is back", func() bool {
		return root.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM vouchers), (SELECT COUNT(*) FROM orders)").Scan(&vouchers, &orders) == nil
	})
	if vouchers != 1 || orders != 1 {
		t.Errorf("%d vouchers and %d orders are committed, want 1 and 1", vouchers, orders)
	}
}

func TestWrongPasswordIsNotShown(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		_, err := Open(t.Context(), Config{MySQL: strings.Replace(where.DSN, "root@", "root:hunter2@", 1)})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error is %v", err)
		}
	})
}

// The code relies on these settings, so the DSN cannot override them. All pools have them; the writers,
// and those for admission, have no autocommit, and the locks a lock wait timeout of their own.
func TestSessionSettings(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := Config{MySQL: where.DSN + "?parseTime=false&loc=Asia%2FShanghai&charset=latin1&time_zone=%27%2B08:00%27&sql_mode=%27%27" +
			"&autocommit=0&@@session.completion_type=1&sql_safe_updates=1&SQL_SELECT_LIMIT=1&unique_checks=0&tx_isolation=%27SERIALIZABLE%27&transaction_isolation=%27SERIALIZABLE%27&interpolateParams=false&multiStatements=true"}
		c.LockWait = 1500 * time.Millisecond
		d := open(t, c)
		isolation := "SELECT @@transaction_isolation"
		if where.Engine == "mariadb" {
			isolation = "SELECT @@tx_isolation"
		}
		for name, pool := range d.Pools() {
			autocommit := map[string]string{"readers": "1", "writers": "0", "admission": "0", "locks": "1"}[name]
			wait := map[string]string{"readers": "2", "writers": "2", "admission": "2", "locks": "5"}[name]
			for query, want := range map[string]string{
				isolation:                           "READ-COMMITTED",
				"SELECT @@time_zone":                "+00:00",
				"SELECT @@character_set_connection": "utf8mb4",
				"SELECT @@autocommit":               autocommit,
				"SELECT @@completion_type":          "NO_CHAIN",
				"SELECT @@sql_safe_updates":         "0",
				"SELECT @@sql_select_limit":         "18446744073709551615",
				"SELECT @@unique_checks":            "1",
				"SELECT @@innodb_lock_wait_timeout": wait,
			} {
				var got string
				fail.NowIf(t, pool.QueryRowContext(t.Context(), query).Scan(&got))
				fail.Unequal(t, got, want, "%s: %s", name, query)
			}
			var mode string
			fail.NowIf(t, pool.QueryRowContext(t.Context(), "SELECT @@sql_mode").Scan(&mode))
			if !strings.Contains(mode, "STRICT_ALL_TABLES") {
				t.Errorf("%s: sql_mode is %q", name, mode)
			}
			_, err := pool.ExecContext(t.Context(), "DO 1; DO 2")
			if several := err == nil; several != (name == "writers" || name == "admission") {
				t.Errorf("%s: accepts several statements at once: %v", name, several)
			}
		}
	})
}

// The clock of the database is half an hour behind that of the process, in both flows. Buyers have as much time to pay as
// the voucher gives them, by the clock that judges it.
func TestTimeToPayCountsFromTheDatabasesClock(t *testing.T) {
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		d := openMigrated(t, databaseConfig(where))
		createVoucher(t, d, 1, 10)
		v := newVoucher(2, 10)
		v.PayWithin = 10 * time.Minute
		openSale(t, d, v)
		behind := time.Now().Add(-30 * time.Minute).Truncate(time.Second)
		c := databaseConfig(where)
		c.MySQL += fmt.Sprintf("?timestamp=%d", behind.Unix())
		late := open(t, c)
		fail.NowIf(t, placeOrder(t.Context(), late, newUnpaid(1, 1, 1, time.Now().Add(10*time.Minute)), true))
		fail.NowIf(t, fail.Of(late.AdmissionStore().Persist(t.Context(), acceptedRange(2, 3, 2))))
		for id := range int64(2) {
			details, err := d.Lifecycle().Details(t.Context(), order.Order{ID: id + 1, VoucherID: id + 1})
			if left := details.PayBy.Sub(behind); err != nil || left > 10*time.Minute || left < 5*time.Minute {
				t.Errorf("order %d has %v to pay, %v", id+1, left, err)
			}
		}
	})
}

// A server that takes no writes of the service is refused at the start, with the setting that is to be changed.
func TestServerThatDoesNotSuit(t *testing.T) {
	t.Parallel()
	server := testkit.NewMariaDB(t, "--log-bin=log", "--binlog-format=STATEMENT")
	d := open(t, databaseConfig(server.Database(t)))
	set := func(statement string) {
		t.Helper()
		_, err := d.singles.ExecContext(t.Context(), statement)
		fail.NowIf(t, err)
	}
	refused := func(setting string) {
		t.Helper()
		// New sessions, with the settings that the server has now.
		_, err := open(t, d.config).Migrate(t.Context())
		if fail.Unless(t, err, ErrUnsuitable); err != nil && !strings.Contains(err.Error(), setting) {
			t.Errorf("%v does not name %s", err, setting)
		}
	}
	_, err := d.singles.ExecContext(t.Context(), "CREATE TABLE refused (id INT)") // it is no row of InnoDB
	fail.NowIf(t, err)
	if _, err = d.singles.ExecContext(t.Context(), "INSERT INTO refused VALUES (1)"); err == nil {
		t.Error("a row can be written: this setting need not be refused")
	}
	refused("binlog_format")
	set("SET GLOBAL binlog_format = ROW")
	set("SET GLOBAL read_only = ON")
	refused("read_only")
	set("SET GLOBAL read_only = OFF")
	_, err = open(t, d.config).Migrate(t.Context())
	fail.If(t, err)
}
