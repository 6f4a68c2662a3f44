package testkit

import (
	"database/sql"
	"fmt"
	"path/filepath"
)

// Database is an empty database of one test.
type Database struct {
	Engine string // "sqlite", "mariadb" or "mysql"
	DSN    string // as go-sql-driver/mysql takes it, such as "root@tcp(127.0.0.1:15306)/test_7"; for sqlite a file's path
}

// SQLEngines runs fn once per engine, as subtests "sqlite", "mariadb" and "mysql", each with an empty database.
func SQLEngines[T interface {
	TB
	Run(name string, fn func(t T)) bool
}](t T, fn func(t T, db Database)) {
	t.Helper()
	for _, engine := range []struct {
		name string
		open func(TB) Database
	}{
		{"sqlite", SQLite},
		{"mariadb", MariaDB},
		{"mysql", MySQL},
	} {
		t.Run(engine.name, func(t T) { fn(t, engine.open(t)) })
	}
}

// SQLite returns the path of a database file that does not exist yet, in the test's temporary folder.
func SQLite(t TB) Database {
	return Database{Engine: "sqlite", DSN: filepath.Join(t.TempDir(), "seckill.db")}
}

// MariaDB returns an empty database on the MariaDB server that all tests of this binary share. It is dropped at the end
// of the test.
func MariaDB(t TB) Database {
	t.Helper()
	return sharedDatabase(t, &binary.mariadb, mariaDB{})
}

// MySQL returns an empty database on the MySQL server that all tests of this binary share. It is dropped at the end of
// the test.
func MySQL(t TB) Database {
	t.Helper()
	return sharedDatabase(t, &binary.mysql, mySQL{})
}

func sharedDatabase(t TB, server *shared[*sqlProcess], engine sqlEngine) Database {
	t.Helper()
	s, err := server.get(func() (*sqlProcess, error) { return startSQL(engine, nil, withoutSync) })
	check(t, err)
	db, name := s.database(t)
	t.Cleanup(func() {
		if err := s.exec("DROP DATABASE " + name); err != nil {
			t.Errorf("testkit: drop the database of the test: %v", err)
		}
	})
	return db
}

// withoutSync makes a server commit without waiting for the disk: a test binary makes thousands of commits, and does
// not test the disk. It is for shared servers only, which nobody kills.
var withoutSync = []string{"--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-doublewrite=0"}

// database creates an empty database.
func (s *sqlProcess) database(t TB) (db Database, name string) {
	t.Helper()
	name = fmt.Sprintf("test_%d", binary.next())
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		t.Fatalf("testkit: create a database on %s: %v", s.engine.name(), err)
	}
	return Database{Engine: s.engine.name(), DSN: s.dsn(name)}, name
}

func (s *sqlProcess) exec(query string) error {
	db, err := sql.Open("mysql", s.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(query)
	return err
}
