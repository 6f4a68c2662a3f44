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
		// While a member leaves or comes back, a node refuses to wait for what others have committed, with error 1205. It
		// refuses everything, with error 1047, while it is itself the member that the others do not hear.
		testkit.Until(t, fmt.Sprintf("an answer of node %d", node), func() bool {
			var got string
			err := db.QueryRow("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT COUNT(*) FROM kept").Scan(&got)
			if refusedWith(err, 1205) || refusedWith(err, 1047) {
				return false
			}
			if err != nil || got != want {
				t.Errorf("node %d has %s rows, %v; want %s", node, got, err, want)
			}
			return true
		})
	}
	insert := func(node, id int) {
		t.Helper()
		db := open(t, databases[node])
		testkit.Until(t, fmt.Sprintf("node %d takes a row", node), func() bool {
			_, err := db.Exec(fmt.Sprintf("INSERT INTO kept VALUES (%d)", id))
			if err != nil && !refusedWith(err, 1047) {
				t.Fatalf("insert %d on node %d: %v", id, node, err)
			}
			return err == nil
		})
	}
	for node := range databases {
		insert(node, node)
	}
	for node := range databases {
		seen(node, "3")
	}

	cluster.Nodes[2].Kill()
	insert(1, 3)
	cluster.Nodes[2].Restart()
	seen(2, "4")
	// The node that created the cluster rejoins like any other.
	cluster.Nodes[0].Kill()
	insert(1, 4)
	cluster.Nodes[0].Restart()
	seen(0, "5")

	cluster.Nodes[1].Pause()
	insert(2, 5) // succeeds once the paused node is expelled
	cluster.Nodes[1].Resume()
	seen(0, "6")
}

func refusedWith(err error, number uint16) bool {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && refused.Number == number
}
