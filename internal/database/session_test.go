package database

import (
	"context"
	"database/sql/driver"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/simulate"
)

// A read is repeated while a node cannot wait for the others' commits, for about a second. How long the node takes to
// say so does not multiply that.
func TestReadsOfANodeThatCannotSync(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		each     time.Duration
		attempts int
	}{
		"the node refuses at once":          {time.Millisecond, syncAttempts},
		"the node's applier is blocked":     {5 * time.Second, 1},
		"it is, and the timeout is shorter": {400 * time.Millisecond, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &unsyncedServer{takes: tc.each}
				began := time.Now()
				_, err := (&sessionConn{serverConn: server, member: true}).QueryContext(t.Context(), "SELECT 1", nil)
				if !couldNotSync("SELECT 1", err) || server.asked != tc.attempts || time.Since(began) > syncFor+tc.each {
					t.Errorf("%v after %d attempts in %v, want %d", err, server.asked, time.Since(began), tc.attempts)
				}
			})
		})
	}
}

// unsyncedServer is a node that cannot wait for the commits of other nodes.
type unsyncedServer struct {
	serverConn
	takes time.Duration
	asked int
}

func (s *unsyncedServer) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	s.asked++
	simulate.Sleep(s.takes)
	return nil, &mysql.MySQLError{Number: 1205}
}
