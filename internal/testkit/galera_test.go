package testkit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
)

func TestGaleraReplicatesAndNodesRejoin(t *testing.T) {
	t.Parallel()
	began := time.Now()
	cluster := testkit.Galera(t, 3)
	t.Logf("a cluster of three nodes after %v", time.Since(began).Round(time.Millisecond))
	databases := cluster.Database(t)
	exec(t, open(t, databases[0]), "CREATE TABLE kept (id INT PRIMARY KEY)")

	seen := func(node int, want string) {
		t.Helper()
		db := open(t, databases[node])
		// A node refuses to wait for what others have committed, with error 1205, while a member leaves or comes back.
		testkit.Until(t, fmt.Sprintf("an answer of node %d", node), func() bool {
			var got string
			err := db.QueryRow("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT COUNT(*) FROM kept").Scan(&got)
			if refused, ok := errors.AsType[*mysql.MySQLError](err); ok && refused.Number == 1205 {
				return false
			}
			if err != nil || got != want {
				t.Errorf("node %d has %s rows, %v; want %s", node, got, err, want)
			}
			return true
		})
	}
	for node := range databases {
		exec(t, open(t, databases[node]), fmt.Sprintf("INSERT INTO kept VALUES (%d)", node))
	}
	for node := range databases {
		seen(node, "3")
	}

	cluster.Nodes[2].Kill()
	exec(t, open(t, databases[1]), "INSERT INTO kept VALUES (3)")
	cluster.Nodes[2].Restart()
	seen(2, "4")
	// The node that created the cluster rejoins like any other.
	cluster.Nodes[0].Kill()
	exec(t, open(t, databases[1]), "INSERT INTO kept VALUES (4)")
	cluster.Nodes[0].Restart()
	seen(0, "5")

	cluster.Nodes[1].Pause()
	exec(t, open(t, databases[2]), "INSERT INTO kept VALUES (5)") // succeeds once the paused node is expelled
	cluster.Nodes[1].Resume()
	seen(0, "6")
}
