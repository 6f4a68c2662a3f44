package testkit_test

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// open opens a MariaDB or MySQL database, which is closed at the end of the test.
func open(t *testing.T, database testkit.Database) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", database.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func query(t *testing.T, db *sql.DB, query string) (answer string) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return answer
}

func exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestSQLEnginesGivesEachEngineAnEmptyDatabase(t *testing.T) {
	var engines []string
	testkit.SQLEngines(t, func(t *testing.T, database testkit.Database) {
		engines = append(engines, database.Engine)
		if database.Engine == "sqlite" {
			return // a path; the driver is the caller's choice
		}
		db := open(t, database)
		if got := query(t, db, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()"); got != "0" {
			t.Errorf("%s tables in a fresh database, want 0", got)
		}
		isMariaDB := strings.Contains(query(t, db, "SELECT VERSION()"), "MariaDB")
		if wants := database.Engine == "mariadb"; isMariaDB != wants {
			t.Errorf("server behind %q is MariaDB: %v, want %v", database.Engine, isMariaDB, wants)
		}
	})
	if len(engines) != 3 && !t.Failed() {
		t.Logf("only %v ran", engines)
	}
}

func TestDatabaseIsDroppedAfterItsTest(t *testing.T) {
	for name, database := range map[string]func(testkit.TB) testkit.Database{"mariadb": testkit.MariaDB, "mysql": testkit.MySQL} {
		t.Run(name, func(t *testing.T) {
			var dropped string
			t.Run("database", func(t *testing.T) {
				dropped = query(t, open(t, database(t)), "SELECT DATABASE()")
			})
			db := open(t, database(t))
			if got := query(t, db, "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '"+dropped+"'"); got != "0" {
				t.Errorf("database %s is still there", dropped)
			}
		})
	}
}

// A paused server answers nothing: not even in the first milliseconds, in which a busy machine has not yet stopped all of
// its threads.
func TestPausedSQLServerAnswersNothing(t *testing.T) {
	server := testkit.NewMariaDB(t)
	db := open(t, server.Database(t))
	for range 2 * runtime.NumCPU() {
		shell(t, "while :; do :; done") // the machine is busy
	}
	for i := range 50 {
		exec(t, db, "DO 1") // there is an idle connection
		server.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := db.ExecContext(ctx, "DO 1")
		cancel()
		server.Resume()
		if err == nil {
			t.Fatalf("pause %d: a paused server answers", i+1)
		}
	}
}
