package chaos

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// TestSoakVitessMove moves the database of a running sale: from a MySQL server of its own behind a gate that has it as
// its one shard, and from there to two shards. Buyers buy and pay meanwhile, under both flows. The steps are those of
// docs/scale.md.
func TestSoakVitessMove(t *testing.T) {
	testkit.Soak(t)
	m := &vitessMove{vitess: newVitessServers(t), plain: testkit.NewMySQL(t, "--log-bin=bin", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")}
	db := lifecycleDatabase{name: "MySQL", where: m.plain.Database(t), locked: lifecycleLocked(), hands: func(*lifecycleChaos) [][]strike { return m.steps() }}
	m.lifecycleChaos = openLifecycleChaos(t, 6, db)
	m.watch = openWatch(m.lifecycleChaos)
	m.run()
}

// vitessMove is the service, and the servers between which its data moves.
type vitessMove struct {
	*lifecycleChaos
	vitess *testkit.VitessServers
	plain  *testkit.SQLServer // the server from which it moves
	before *testkit.VitessTablet
	gate   testkit.Database
	done   bool
}

// steps are one hand each, so that they keep their order.
func (m *vitessMove) steps() (hands [][]strike) {
	wait := []strike{m.wait}
	if m.done {
		return [][]strike{wait}
	}
	m.done = true
	for _, s := range []struct {
		name string
		do   func()
	}{
		{"GTIDs", m.logGTIDs},
		{"tablet over the server", m.putTablet},
		{"gate", func() { m.gate = m.vitess.Gate() }},
		{"service restarted, one process after the other", m.pointAtGate},
		{"servers of the new shards", m.addShards},
		{"Reshard create", m.copyRows},
		{"VDiff", m.compare},
		{"switchtraffic of reads", func() { m.reshard("switchtraffic", "--tablet-types", "rdonly,replica") }},
		{"switchtraffic of writes", func() { m.reshard("switchtraffic", "--tablet-types", "primary") }},
		{"reversetraffic", func() { m.reshard("reversetraffic") }},
		{"switchtraffic, again", func() { m.reshard("switchtraffic") }},
		{"complete", m.complete},
	} {
		hands = append(hands, []strike{m.watch.step(s.name, s.do)})
	}
	return hands
}

var vitessShards = []string{"-80", "80-"}

// logGTIDs has the server tell transactions by their ids, which Vitess needs, while it serves.
func (m *vitessMove) logGTIDs() {
	m.t.Helper()
	for _, set := range []string{
		"enforce_gtid_consistency = WARN", "enforce_gtid_consistency = ON", "gtid_mode = OFF_PERMISSIVE", "gtid_mode = ON_PERMISSIVE",
	} {
		m.onPlain("SET GLOBAL " + set)
	}
	testkit.Until(m.t, "no transaction without an id is under way", func() bool {
		var name string
		var n int
		fail.NowIf(m.t, m.books.QueryRowContext(m.t.Context(), "SHOW GLOBAL STATUS LIKE 'Ongoing_anonymous_transaction_count'").Scan(&name, &n))
		return n == 0
	})
	m.onPlain("SET GLOBAL gtid_mode = ON")
}

func (m *vitessMove) onPlain(statement string) {
	m.t.Helper()
	_, err := m.books.ExecContext(m.t.Context(), statement)
	fail.NowIf(m.t, err, "%s", statement)
}

// putTablet makes the server the one shard of the keyspace.
func (m *vitessMove) putTablet() {
	m.t.Helper()
	var name string
	fail.NowIf(m.t, m.books.QueryRowContext(m.t.Context(), "SELECT DATABASE()").Scan(&name))
	m.before = m.vitess.Tablet("-", m.plain, name)
	m.vitess.Control("TabletExternallyReparented", m.before.Alias)
	m.vitess.Control("ReloadSchema", m.before.Alias) // it has begun before it knew that it would be the primary
}

// pointAtGate stops one process after the other, and starts it with another DSN.
func (m *vitessMove) pointAtGate() {
	m.t.Helper()
	m.where.DB = m.gate
	for i := range m.apis {
		fail.If(m.t, m.apis[i].Stop(), "process %d", i)
		m.start(i)
	}
	books, err := sql.Open("mysql", m.gate.DSN)
	fail.NowIf(m.t, err)
	fail.NowIf(m.t, m.books.Close())
	m.books = books
}

func (m *vitessMove) addShards() {
	m.t.Helper()
	for i, shard := range vitessShards {
		tablet := m.vitess.Tablet(shard, testkit.NewMySQL(m.t, testkit.VitessFlags(2+i)...), "vt_seckill")
		m.vitess.Control("PlannedReparentShard", "seckill/"+shard, "--new-primary", tablet.Alias)
		// A column's character set is shown where the statement that made the table has named it, which is no
		// difference.
		m.vitess.Control("CopySchemaShard", "--skip-verify", "seckill/-", "seckill/"+shard)
	}
}

func (m *vitessMove) reshard(command string, flags ...string) string {
	m.t.Helper()
	return m.vitess.Control(append([]string{"Reshard", "--workflow", "two", "--target-keyspace", "seckill", command}, flags...)...)
}

// copyRows copies the rows to the shards to which they belong, and has what is written meanwhile follow.
func (m *vitessMove) copyRows() {
	m.t.Helper()
	m.reshard("create", "--source-shards=-", "--target-shards=-80,80-", "--skip-schema-copy")
	var status string
	defer func() { m.t.Log(status) }()
	testkit.Until(m.t, "all rows are copied", func() bool {
		time.Sleep(200 * time.Millisecond)
		status = m.reshard("status")
		return strings.Count(status, "Status: Running. VStream Lag: ") == 2
	})
}

// compare compares the rows of the new shards with those of the old one.
func (m *vitessMove) compare() {
	m.t.Helper()
	args := []string{"VDiff", "--workflow", "two", "--target-keyspace", "seckill"}
	m.vitess.Control(append(args, "create", "--wait", "--wait-update-interval=1s")...)
	out := m.vitess.Control(append(args, "show", "last", "--format=json")...)
	var got struct {
		State       string
		HasMismatch bool
	}
	fail.NowIf(m.t, json.Unmarshal([]byte(out), &got))
	fail.Unequal(m.t, fmt.Sprint(got), "{completed false}", "VDiff")
}

// complete gives the old shard up, whose server then ends.
func (m *vitessMove) complete() {
	m.t.Helper()
	m.reshard("complete")
	m.before.Kill()
	m.plain.Kill()
	m.vitess.Control("DeleteShards", "--recursive", "seckill/-")
}

func newVitessServers(t *testing.T) *testkit.VitessServers {
	t.Helper()
	return testkit.NewVitessServers(t, vschema(t))
}
