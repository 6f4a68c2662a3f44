package testkit_test

import (
	"context"
	"database/sql"
	"runtime"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A paused server answers nothing: not even in the first milliseconds, in which a busy machine has not yet stopped all of
// its threads.
func TestPausedSQLServerAnswersNothing(t *testing.T) {
	server := testkit.NewMariaDB(t)
	db, err := sql.Open("mysql", server.Database(t).DSN)
	fail.NowIf(t, err)
	defer db.Close()
	for range 2 * runtime.NumCPU() {
		shell(t, "while :; do :; done") // the machine is busy
	}
	for i := range 50 {
		if _, err := db.Exec("DO 1"); err != nil { // there is an idle connection
			t.Fatal(err)
		}
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
