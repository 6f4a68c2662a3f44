package testkit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// VitessCluster is a gate of Vitess over two shards, each a MySQL server of its own, for one test.
type VitessCluster struct {
	// Shards may be killed, paused and restarted.
	Shards []*SQLServer

	t    TB
	gate *vitessGate
}

// The keyspace, which is the name of the database at the gate, and its shards.
const vitessKeyspace = "seckill"

var vitessShards = []string{"-80", "80-"}

// Vitess starts two MySQL servers and vtcombo, which is gate, tablets and topology in one process. vschema is that of the
// keyspace. It takes some seconds. Everything is stopped at the end of the test, which is skipped without vtcombo.
func Vitess(t TB, vschema []byte) *VitessCluster {
	t.Helper()
	path, err := vitessProgram("vtcombo")
	if _, missing := errors.AsType[*MissingError](err); missing { // also with REQUIRE_INFRA=1: make infra does not build it
		t.Skipf("%v", err)
	}
	check(t, err)
	c := &VitessCluster{t: t}
	for shard := range vitessShards {
		server := NewMySQL(t, "--gtid-mode=ON", "--enforce-gtid-consistency", "--log-bin=bin")
		check(t, prepareForVitess(server, shardDatabase(shard)))
		c.Shards = append(c.Shards, server)
	}
	c.gate, err = newVitessGate(path, vschema, c.Shards)
	check(t, err)
	t.Cleanup(func() {
		if c.gate.Process != nil {
			c.gate.Kill()
			if t.Failed() {
				c.gate.logOutput(t, "vtcombo")
			}
		}
		if err := c.gate.close(); err != nil {
			t.Errorf("testkit: close the gate of Vitess: %v", err)
		}
	})
	check(t, c.gate.start())
	return c
}

// prepareForVitess creates the users as whom Vitess comes, and the database. Its log has none of that, see rootOverTCP.
func prepareForVitess(server *SQLServer, database string) error {
	db, err := sql.Open("mysql", server.process.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	statements := []string{"SET sql_log_bin = 0", "CREATE DATABASE IF NOT EXISTS " + database}
	for _, user := range []string{"dba", "app", "allprivs", "repl", "filtered", "appdebug"} {
		name := "vt_" + user + "@'127.0.0.1'"
		statements = append(statements, "CREATE USER "+name, "GRANT ALL ON *.* TO "+name+" WITH GRANT OPTION")
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(context.Background(), statement); err != nil {
			return err
		}
	}
	return nil
}

func shardDatabase(shard int) string { return fmt.Sprintf("vt_%s_%d", vitessKeyspace, shard) }

// Database is the keyspace at the gate. It is empty at first.
func (c *VitessCluster) Database() Database {
	return Database{Engine: "vitess", DSN: c.gate.dsn()}
}

// Kill kills the gate, with all tablets. The shards' servers live on.
func (c *VitessCluster) Kill() { c.gate.Kill() }

// Pause pauses the gate, with all tablets.
func (c *VitessCluster) Pause() {
	c.t.Helper()
	c.gate.pause(c.t)
}

// Resume continues a paused gate.
func (c *VitessCluster) Resume() { c.gate.Resume() }

// Restart starts the gate again at the same address, and waits until it serves.
func (c *VitessCluster) Restart() {
	c.t.Helper()
	c.gate.Kill()
	check(c.t, c.gate.start())
}

// ShardOf returns in which shard a row is.
func (c *VitessCluster) ShardOf(table, column, value string) int {
	c.t.Helper()
	for shard, server := range c.Shards {
		db, err := sql.Open("mysql", server.process.dsn(shardDatabase(shard)))
		check(c.t, err)
		var n int
		err = db.QueryRowContext(c.t.Context(), "SELECT COUNT(*) FROM "+table+" WHERE "+column+" = ?", value).Scan(&n)
		check(c.t, errors.Join(err, db.Close()))
		if n > 0 {
			return shard
		}
	}
	c.t.Fatalf("testkit: no shard has row %s of %s", value, table)
	return 0
}

// RestartShard starts a server of a shard again, and waits until the gate has noticed.
func (c *VitessCluster) RestartShard(shard int) {
	c.t.Helper()
	c.Shards[shard].Restart()
	check(c.t, c.gate.waitReady(c.gate.serves))
}

// VitessPlan is what the gate has done with one statement, whose values it has replaced.
type VitessPlan struct {
	Type                    string
	ExecCount, ShardQueries int
}

// Plans returns the plans of the statements that the gate has carried out since it started.
func (c *VitessCluster) Plans() (plans map[string]VitessPlan) {
	c.t.Helper()
	c.debug("query_plans", &plans)
	return plans
}

// CrossShard counts the transactions that wrote to several shards.
func (c *VitessCluster) CrossShard() int {
	c.t.Helper()
	var vars struct{ TransactionsProcessed map[string]int }
	c.debug("vars", &vars)
	if len(vars.TransactionsProcessed) == 0 {
		c.t.Fatalf("testkit: the gate has counted no transaction")
	}
	return vars.TransactionsProcessed["Cross.ReadWrite"]
}

func (c *VitessCluster) debug(page string, into any) {
	c.t.Helper()
	readDebug(c.t, c.gate.port+vitessWeb, page, into)
}

// readDebug reads what a program of Vitess tells of itself.
func readDebug(t TB, port int, page string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/debug/%s", port, page), nil)
	check(t, err)
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer resp.Body.Close()
	check(t, json.NewDecoder(resp.Body).Decode(into))
}

// vitessGate is vtcombo with its folder. It listens for MySQL's clients, and at these distances for the others.
type vitessGate struct {
	*Process
	path, dir string
	remove    func() error
	forwarder *shardForwarder
	port      int
}

const vitessWeb, vitessGRPC = 1, 2

func newVitessGate(path string, vschema []byte, shards []*SQLServer) (g *vitessGate, err error) {
	g = &vitessGate{path: path}
	if g.dir, g.remove, err = binary.folder(""); err != nil {
		return nil, err
	}
	schema := filepath.Join(g.dir, "schema", vitessKeyspace)
	if err = os.MkdirAll(schema, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(schema, "vschema.json"), vschema, 0o644)
	}
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(g.dir, nobody, nobody)
	}
	if err == nil {
		g.forwarder, err = forwardToShards(filepath.Join(g.dir, "mysql.sock"), shards)
	}
	if err == nil {
		err = os.Chmod(g.forwarder.path(), 0o777) //nolint:gosec // vtcombo has another user
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

func (g *vitessGate) close() error {
	if g.forwarder != nil {
		g.forwarder.close()
	}
	return g.remove()
}

func (g *vitessGate) start() error {
	if g.port != 0 {
		return g.launch()
	}
	return withFreePort(func(port int) error {
		g.port = port
		return g.launch()
	}, vitessWeb, vitessGRPC)
}

func (g *vitessGate) launch() error {
	var shards []string
	for i, name := range vitessShards {
		shards = append(shards, fmt.Sprintf("shards:{name:%q db_name_override:%q}", name, shardDatabase(i)))
	}
	p, err := start(Command{
		Path: g.path, Dir: g.dir, Env: []string{"HOME=" + g.dir, "VTDATAROOT=" + g.dir}, Unprivileged: true,
		Args: []string{
			"--proto-topo", fmt.Sprintf(`keyspaces:{name:%q %s} cells:"zone1"`, vitessKeyspace, strings.Join(shards, " ")),
			"--schema-dir", filepath.Join(g.dir, "schema"), "--db-socket", g.forwarder.path(), "--db-charset", "utf8mb4",
			"--mysql-server-bind-address", "127.0.0.1", "--mysql-server-port", fmt.Sprint(g.port), "--mysql-auth-server-impl", "none",
			"--port", fmt.Sprint(g.port + vitessWeb), "--grpc-port", fmt.Sprint(g.port + vitessGRPC), "--bind-address", "127.0.0.1",
			"--service-map", "grpc-vtgateservice,grpc-vtctl,grpc-vtctld", "--log-level", "warn",
		},
	})
	if err != nil {
		return err
	}
	if err := p.waitReady(g.serves); err != nil {
		p.Kill()
		return err
	}
	g.Process = p
	return nil
}

func (g *vitessGate) dsn() string {
	return fmt.Sprintf("seckill@tcp(127.0.0.1:%d)/%s", g.port, vitessKeyspace)
}

// serves returns nil when the primary of each shard serves.
func (g *vitessGate) serves(ctx context.Context) error {
	if err := listening(ctx, fmt.Sprintf("127.0.0.1:%d", g.port)); err != nil {
		return err
	}
	db, err := sql.Open("mysql", g.dsn())
	if err != nil {
		return err
	}
	defer db.Close()
	for i, shard := range vitessShards {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		var name string
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(ctx, "USE `"+vitessKeyspace+":"+shard+"`"); err != nil {
			return err
		}
		if err := conn.QueryRowContext(ctx, "SELECT schema_name FROM information_schema.schemata WHERE schema_name = ?", shardDatabase(i)).Scan(&name); err != nil {
			return err
		}
	}
	return nil
}

var vitessPrograms = []string{"vtgate", "vttablet", "vtctld", "vtctldclient"}

// vitessProgram finds a program of Vitess on the PATH, or in the folder bin of the project.
func vitessProgram(name string) (string, error) {
	if err := allowed(); err != nil {
		return "", err
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err == nil {
		if path, err := exec.LookPath(filepath.Join(strings.TrimSpace(string(out)), "bin", name)); err == nil {
			return path, nil
		}
	}
	return "", &MissingError{Server: name, How: "make bin/vtcombo"}
}
