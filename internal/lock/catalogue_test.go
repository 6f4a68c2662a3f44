package lock_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// The table of docs/locks.md has a row for each lock, in the catalogue's order, that says the same of its store, its
// wake-up and its tokens. Those that a policy may name outside lab mode are in bold.
func TestDocumentedLocks(t *testing.T) {
	text, err := os.ReadFile("../../docs/locks.md")
	fail.NowIf(t, err)
	_, table, _ := strings.Cut(string(text), "## All of them")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows [][]string
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| `") || strings.HasPrefix(line, "| **`") {
			rows = append(rows, strings.Split(line, " | "))
		}
	}
	fail.NowUnequal(t, len(rows), len(lock.Catalogue()), "rows")
	lives := map[lock.Store][]string{
		lock.InProcess:   {"nowhere", "memory of one process"},
		lock.InRedis:     {"one Redis", "one Redis, and the token in the database"},
		lock.InNodes:     {"all of N Redis nodes", "a majority of N Redis nodes"},
		lock.InMySQL:     {"a row", "a row with an end, renewed", "a connection", "a transaction's row lock"},
		lock.InZooKeeper: {"an ephemeral node", "ephemeral sequential nodes"},
	}
	wakes := map[lock.Passing][]string{
		lock.PassingNone:   {"–", "polls", "watch, all"},
		lock.PassingTold:   {"next in line", "message; a release hands over", "message; a release hands over where the next waiter is in the same process", "watch, one"},
		lock.PassingUntold: {"server's queue"},
	}
	for i, m := range lock.Catalogue() {
		const where, wakeUp, token = 1, 4, 5
		row, name := rows[i], "`"+m.Name+"`"
		if m.Safe {
			name = "**" + name + "**"
		}
		if len(row) != 7 || row[0] != "| "+name {
			t.Errorf("row %d is %q, want that of %s with 7 columns", i+1, row[0], name)
			continue
		}
		if !slices.Contains(lives[m.Store], row[where]) || !slices.Contains(wakes[m.Passing], row[wakeUp]) || strings.HasPrefix(row[token], "**yes**") != m.Fenced {
			t.Errorf("%s: %q, %q, token %q; the catalogue says %+v", m.Name, row[where], row[wakeUp], row[token], m)
		}
	}
}
