package testkit

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// GaleraCluster is a cluster of MariaDB servers with synchronous replication, for one test. Every node takes writes.
type GaleraCluster struct {
	// Nodes may be killed, paused and restarted one at a time. More than half of them must stay up: otherwise the rest
	// lose the quorum and stop serving. Restart returns when the node has caught up.
	Nodes []*SQLServer
}

// Galera starts a cluster of n nodes for this test alone and returns when all of them have joined. It takes a few
// seconds. The nodes are stopped at the end of the test. A node that is killed or paused is expelled after one second
// (by default it is five).
func Galera(t TB, n int) *GaleraCluster {
	t.Helper()
	provider, err := galeraProvider()
	check(t, err)
	script, err := galeraScript(t)
	check(t, err)
	g := &galera{provider: provider, script: script, nodes: make([]*galeraNode, n)}
	cluster := &GaleraCluster{Nodes: make([]*SQLServer, n)}
	for i := range g.nodes {
		g.nodes[i] = &galeraNode{cluster: g, first: i == 0}
	}
	for i := range g.nodes { // one after the other: concurrent joins disturb each other
		check(t, g.start(t, i, cluster))
	}
	for _, server := range cluster.Nodes {
		check(t, server.process.waitReady(func(ctx context.Context) error { return galeraComplete(ctx, server.process, n) }))
	}
	return cluster
}

// Database creates an empty database and returns its DSN on each node.
func (c *GaleraCluster) Database(t TB) []Database {
	t.Helper()
	first, name := c.Nodes[0].process.database(t)
	databases := make([]Database, len(c.Nodes))
	databases[0] = first
	for i, server := range c.Nodes[1:] {
		databases[i+1] = Database{Engine: server.process.engine.name(), DSN: server.process.dsn(name)}
		check(t, server.process.waitReady(func(context.Context) error { return server.process.exec("USE " + name) }))
	}
	return databases
}

// galera is the shared state of the nodes of a cluster.
type galera struct {
	provider string // the library that replicates
	script   string // the folder that has galera_sst.sh, under the name wsrep_sst_testkit

	mu    sync.Mutex
	nodes []*galeraNode
}

// galeraNode is the [sqlEngine] of a MariaDB server that is a node of a cluster.
type galeraNode struct {
	mariaDB
	cluster *galera
	first   bool // it creates the cluster
	process *sqlProcess
	joined  bool
}

// A node listens on three ports: the one for clients, and at these distances from it those for the group and for
// incremental transfers.
const galeraGroup, galeraIST = 1, 2

func (g *galera) start(t TB, i int, cluster *GaleraCluster) error {
	process, err := startSQL(g.nodes[i], nil, nil)
	if err != nil {
		return err
	}
	cluster.Nodes[i] = newSQLServer(t, process)
	return nil
}

// initialize leaves the folder of a joining node empty: the node gets a copy of another one's data.
func (n *galeraNode) initialize(program sqlProgram, dir string) error {
	if n.first {
		return n.mariaDB.initialize(program, dir)
	}
	return os.MkdirAll(dir, 0o700)
}

func (n *galeraNode) ports() []int { return []int{galeraGroup, galeraIST} }

// start implements [sqlStarter].
func (n *galeraNode) start(s *sqlProcess) (flags, env []string, err error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.process = s
	var others []string
	for _, other := range n.cluster.nodes {
		if other != n && other.joined {
			others = append(others, other.group())
		}
	}
	flags = append(n.replication(), "--wsrep-cluster-address=gcomm://"+strings.Join(others, ","))
	switch {
	case n.joined: // and was killed: its position is in its redo log
		position, err := n.position(s)
		if err != nil {
			return nil, nil, err
		}
		flags = append(flags, "--wsrep-start-position="+position)
	case n.first:
		flags = append(flags, "--wsrep-new-cluster")
	}
	return flags, []string{"PATH=" + n.cluster.script + string(os.PathListSeparator) + os.Getenv("PATH")}, nil
}

func (n *galeraNode) group() string { return fmt.Sprintf("127.0.0.1:%d", n.process.port+galeraGroup) }

// replication returns the flags of a node. The timeouts are a fifth of the defaults.
func (n *galeraNode) replication() []string {
	options := []string{
		"gmcast.listen_addr=tcp://" + n.group(),
		fmt.Sprintf("ist.recv_addr=127.0.0.1:%d", n.process.port+galeraIST),
		"gcache.size=32M",
		"evs.inactive_check_period=PT0.1S", "evs.keepalive_period=PT0.2S", "evs.suspect_timeout=PT1S",
		"evs.inactive_timeout=PT3S", "evs.install_timeout=PT1.5S", "evs.join_retrans_period=PT0.2S",
		"pc.announce_timeout=PT1S",
	}
	return []string{
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-flush-log-at-trx-commit=2",
		"--wsrep-on=ON", "--wsrep-provider=" + n.cluster.provider, "--wsrep-cluster-name=seckill",
		"--wsrep-node-address=" + n.group(), "--wsrep-slave-threads=2",
		"--wsrep-sst-method=testkit", "--wsrep-provider-options=" + strings.Join(options, ";"),
	}
}

var recoveredPosition = regexp.MustCompile(`Recovered position: (\S+)`)

// position reads from the data folder how far the node had come.
func (n *galeraNode) position(s *sqlProcess) (string, error) {
	cmd := exec.Command(s.program.path, slices.Concat(s.args(), n.replication(), []string{"--wsrep-cluster-address=gcomm://", "--wsrep-recover"})...)
	cmd.SysProcAttr = childAttributes("")
	out, err := cmd.CombinedOutput()
	if found := recoveredPosition.FindSubmatch(out); err == nil && found != nil {
		return string(found[1]), nil
	}
	return "", fmt.Errorf("recover the position of a Galera node: it ended with %v and printed:\n%s", cmd.ProcessState, out)
}

// ready implements [sqlStarter]: it returns nil when the node is a synchronized member.
func (n *galeraNode) ready(ctx context.Context, db *sql.DB) error {
	if err := galeraStatus(ctx, db, map[string]string{"wsrep_cluster_status": "Primary", "wsrep_local_state_comment": "Synced", "wsrep_ready": "ON"}); err != nil {
		return err
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.joined = true
	return nil
}

func galeraComplete(ctx context.Context, s *sqlProcess, nodes int) error {
	db, err := sql.Open("mysql", s.dsn(""))
	if err != nil {
		return err
	}
	defer db.Close()
	return galeraStatus(ctx, db, map[string]string{"wsrep_cluster_size": fmt.Sprint(nodes), "wsrep_local_state_comment": "Synced"})
}

// galeraStatus returns nil when all status variables have the wanted values.
func galeraStatus(ctx context.Context, db *sql.DB, want map[string]string) error {
	for variable, value := range want {
		var name, is string
		if err := db.QueryRowContext(ctx, "SHOW STATUS LIKE '"+variable+"'").Scan(&name, &is); err != nil {
			return err
		}
		if is != value {
			return fmt.Errorf("%s is %q, not %q", variable, is, value)
		}
	}
	return nil
}

const galeraHow = "apt-get install galera-4, or make infra"

func galeraProvider() (string, error) {
	if _, err := (mariaDB{}).locate(); err != nil {
		return "", err
	}
	for _, path := range []string{
		"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib/libgalera_smm.so",
	} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", &MissingError{Server: "libgalera_smm.so", How: galeraHow}
}

//go:embed galera_sst.sh
var galeraSST []byte

// galeraScript writes the script into a new folder, for mariadbd's PATH.
func galeraScript(t TB) (dir string, err error) {
	dir = t.TempDir()
	return dir, os.WriteFile(filepath.Join(dir, "wsrep_sst_testkit"), galeraSST, 0o700)
}
