package database

import (
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
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

func TestSQLiteConnectionSettings(t *testing.T) {
	t.Parallel()
	d := open(t, databaseConfig(testkit.SQLite(t)))
	for name, pool := range d.Pools() {
		for pragma, want := range map[string]string{
			"journal_mode": "wal", "synchronous": "1", "foreign_keys": "1", "busy_timeout": "3000",
		} {
			var got string
			fail.NowIf(t, pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
			fail.Unequal(t, got, want, "%s: %s", name, pragma)
		}
	}
	fail.Unequal(t, d.writers.Stats().MaxOpenConnections, 1, "writers")
}
