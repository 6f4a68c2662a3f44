package database

import (
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
)

func TestBadConfig(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, c := range map[string]Config{
		"nothing":               {},
		"both":                  {MySQL: "u:" + secret + "@tcp(h)/db", SQLite: "f"},
		"no database":           {MySQL: "u:" + secret + "@tcp(h:1)/"},
		"no slash":              {MySQL: "u:" + secret},
		"no at":                 {MySQL: "u:" + secret + "/db"},
		"a URL":                 {MySQL: "mysql://u:" + secret + "@h:3306/db"},
		"unclosed address":      {MySQL: "u:" + secret + "@tcp(h:3306/db"},
		"bad option":            {MySQL: "u:" + secret + "@tcp(h:1)/db?parseTime=" + secret},
		"unknown TLS":           {MySQL: "u:" + secret + "@tcp(h:1)/db?tls=" + secret},
		"read timeout too low":  {MySQL: "u:" + secret + "@tcp(h:1)/db?readTimeout=1s"},
		"in memory":             {SQLite: ":memory:"},
		"in memory, as a URI":   {SQLite: "file::memory:?cache=shared"},
		"path with a question":  {SQLite: "/tmp/a?b"},
		"negative pool":         {SQLite: "f", MaxWriters: -1},
		"negative timeout":      {SQLite: "f", LockWait: -1},
		"negative attempts":     {SQLite: "f", MaxAttempts: -1},
		"no such folder":        {SQLite: "/nonexistent/folder/file.db", MaxAttempts: 1},
		"no server listens":     {MySQL: "u:" + secret + "@tcp(127.0.0.1:1)/db"},
		"no such host":          {MySQL: "u:" + secret + "@tcp(host.invalid:1)/db", DialTimeout: time.Second},
		"no such unix socket":   {MySQL: "u:" + secret + "@unix(/nonexistent/sock)/db"},
		"password with an at":   {MySQL: "u:p@" + secret + "@tcp(127.0.0.1:1)/db"},
		"password with a slash": {MySQL: "u:p/" + secret + "@tcp(127.0.0.1:1)/db"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Open(t.Context(), c)
			if err == nil {
				d.Close()
				t.Fatal("opened")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("shows the password: %v", err)
			}
		})
	}
}

func TestWrongPasswordIsNotShown(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	rowLockingEngines(t, func(t *testing.T, where testkit.Database) {
		c := Config{MySQL: where.DSN + "?parseTime=false&loc=Asia%2FShanghai&charset=latin1&time_zone=%27%2B08:00%27&sql_mode=%27%27" +
			"&autocommit=1&tx_isolation=%27SERIALIZABLE%27&transaction_isolation=%27SERIALIZABLE%27&interpolateParams=false&multiStatements=true"}
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
				"SELECT @@innodb_lock_wait_timeout": wait,
			} {
				var got string
				wantErr(t, pool.QueryRowContext(t.Context(), query).Scan(&got))
				if got != want {
					t.Errorf("%s: %s: %s, want %s", name, query, got, want)
				}
			}
			var mode string
			wantErr(t, pool.QueryRowContext(t.Context(), "SELECT @@sql_mode").Scan(&mode))
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

func TestSQLiteConnectionSettings(t *testing.T) {
	t.Parallel()
	d := open(t, databaseConfig(testkit.SQLite(t)))
	for name, pool := range d.Pools() {
		for pragma, want := range map[string]string{
			"journal_mode": "wal", "synchronous": "1", "foreign_keys": "1", "busy_timeout": "3000",
		} {
			var got string
			wantErr(t, pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			if got != want {
				t.Errorf("%s: %s is %s, want %s", name, pragma, got, want)
			}
		}
	}
	if n := d.writers.Stats().MaxOpenConnections; n != 1 {
		t.Errorf("%d writers, want 1", n)
	}
}
