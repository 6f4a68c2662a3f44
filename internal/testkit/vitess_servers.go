package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// VitessServers is Vitess as operators run it, for one test: a gate and the tablets are processes of their own, and a
// ZooKeeper tells them of each other. So its workflows can be run, for which [VitessCluster] has no tablets.
type VitessServers struct {
	t       TB
	dir     string
	topo    []string // the flags of every program
	control string   // the address of vtctld
	tablets int
	gate    *Process
	web     int // the gate's port for browsers
}

const vitessCell = "zone1"

// NewVitessServers starts a ZooKeeper, and makes a keyspace in it that has a vschema and no tablet. The test is skipped without
// Vitess' programs.
func NewVitessServers(t TB, vschema []byte) *VitessServers {
	t.Helper()
	for _, program := range vitessPrograms {
		_, err := vitessProgram(program)
		if _, missing := errors.AsType[*MissingError](err); missing {
			t.Skipf("%v", err)
		}
		check(t, err)
	}
	zk := NewZooKeeper(t)
	dir, remove, err := binary.folder("")
	check(t, err)
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Errorf("testkit: remove the folder of Vitess: %v", err)
		}
	})
	if os.Geteuid() == 0 {
		check(t, os.Chown(dir, nobody, nobody))
	}
	v := &VitessServers{t: t, dir: dir, topo: []string{
		"--topo-implementation", "zk2", "--topo-global-server-address", zk.Addr(), "--topo-global-root", "/vitess/global",
	}}
	v.start("vtctld", []int{1}, func(port int) []string {
		v.control = fmt.Sprintf("127.0.0.1:%d", port+1)
		return []string{"--service-map", "grpc-vtctld"}
	})
	v.Control("AddCellInfo", "--root", "/vitess/"+vitessCell, "--server-address", zk.Addr(), vitessCell)
	v.Control("CreateKeyspace", "--durability-policy", "none", vitessKeyspace)
	v.Control("ApplyVSchema", "--vschema", string(vschema), vitessKeyspace)
	return v
}

// Control runs a command of vtctldclient, and returns what it prints.
func (v *VitessServers) Control(command ...string) string {
	v.t.Helper()
	path, err := vitessProgram("vtctldclient")
	check(v.t, err)
	args := append([]string{"--server", v.control, "--log-level", "error"}, command...)
	out, err := exec.CommandContext(v.t.Context(), path, args...).CombinedOutput()
	if err != nil {
		v.t.Fatalf("testkit: vtctldclient %v: %v\n%s", command, err, out)
	}
	return string(out)
}

// VitessFlags are the flags of a mysqld over which there is to be a tablet.
func VitessFlags(id int) []string {
	return []string{"--gtid-mode=ON", "--enforce-gtid-consistency", "--log-bin=bin", fmt.Sprintf("--server-id=%d", id)}
}

// VitessTablet is a process that stands before a MySQL server.
type VitessTablet struct {
	*Process
	Alias string
}

// Tablet starts a tablet of a shard over a server. It is a replica until it is told otherwise.
func (v *VitessServers) Tablet(shard string, server *SQLServer, database string) *VitessTablet {
	v.t.Helper()
	check(v.t, prepareForVitess(server, database))
	v.tablets++
	alias := fmt.Sprintf("%s-%010d", vitessCell, v.tablets)
	host, port := "127.0.0.1", server.process.port
	p := v.start("vttablet", []int{1}, func(int) []string {
		return []string{
			"--tablet-path", alias, "--tablet-hostname", host, "--init-keyspace", vitessKeyspace, "--init-shard", shard, "--init-tablet-type", "replica",
			"--init-db-name-override", database, "--db-host", host, "--db-port", fmt.Sprint(port), "--db-charset", "utf8mb4",
			"--service-map", "grpc-queryservice,grpc-tabletmanager,grpc-updatestream", "--health-check-interval", "1s",
		}
	})
	return &VitessTablet{p, alias}
}

// Gate starts the gate. At least one shard has a primary.
func (v *VitessServers) Gate() Database {
	v.t.Helper()
	var mysql int
	v.gate = v.start("vtgate", []int{1, 2}, func(port int) []string {
		v.web, mysql = port, port+2
		return []string{
			"--cell", vitessCell, "--cells-to-watch", vitessCell, "--tablet-types-to-wait", "PRIMARY", "--enable-buffer",
			"--mysql-server-bind-address", "127.0.0.1", "--mysql-server-port", fmt.Sprint(mysql), "--mysql-auth-server-impl", "none",
			"--service-map", "grpc-vtgateservice", "--buffer-min-time-between-failovers", "1s",
		}
	})
	return Database{Engine: "vitess", DSN: fmt.Sprintf("seckill@tcp(127.0.0.1:%d)/%s", mysql, vitessKeyspace)}
}

// GatePID is the process of the gate.
func (v *VitessServers) GatePID() int { return v.gate.PID() }

// Plans returns the plans of the statements that the gate has carried out.
func (v *VitessServers) Plans() (plans map[string]VitessPlan) {
	v.t.Helper()
	readDebug(v.t, v.web, "query_plans", &plans)
	return plans
}

// start starts a program, which listens for browsers at a port, for the others at the next one, and maybe above.
func (v *VitessServers) start(program string, above []int, args func(port int) []string) (p *Process) {
	v.t.Helper()
	path, err := vitessProgram(program)
	check(v.t, err)
	check(v.t, withFreePort(func(port int) (err error) {
		p, err = start(Command{
			Path: path, Dir: v.dir, Env: []string{"HOME=" + v.dir, "VTDATAROOT=" + v.dir}, Unprivileged: true,
			Args: slices.Concat(v.topo, args(port), []string{
				"--log-level", "error", "--bind-address", "127.0.0.1", "--grpc-bind-address", "127.0.0.1",
				"--port", fmt.Sprint(port), "--grpc-port", fmt.Sprint(port + 1),
			}),
		})
		if err != nil {
			return err
		}
		err = p.waitReady(func(ctx context.Context) (err error) {
			for _, distance := range append(above, 0) {
				err = errors.Join(err, listening(ctx, fmt.Sprintf("127.0.0.1:%d", port+distance)))
			}
			return err
		})
		if err != nil {
			p.Kill()
		}
		return err
	}, above...))
	v.t.Cleanup(func() {
		p.Kill()
		if v.t.Failed() {
			p.logOutput(v.t, program)
		}
	})
	return p
}
