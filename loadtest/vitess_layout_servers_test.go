package loadtest

import (
	"bufio"
	"database/sql"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/procfs"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// use is what was used, and how often what was done. Times are in seconds.
type use [useColumns]float64

const (
	ofService = iota
	ofRedis
	ofGate
	ofTablets
	ofMySQL
	useTimes // the columns before are times

	roundTrips = iota - 1 // from the service to the database
	atGate                // statements
	toShards              // statements of the gate to tablets
	inMySQL               // statements
	logged                // transactions in MySQL's binary log
	useColumns
)

func useHead() string {
	columns := []string{"what", "database", "CPU of each, µs: service", "Redis", "gate", "tablets", "MySQL", "all",
		"round trips of the service", "statements at the gate", "the gate's to shards", "statements in MySQL", "transactions in its log", "CPU of plain's"}
	return "| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|"
}

func (u use) plus(o use) use {
	for i := range u {
		u[i] += o[i]
	}
	return u
}

func (u use) minus(o use) use { return u.plus(o.each(-1)) }

func (u use) each(n float64) use {
	for i := range u {
		u[i] /= n
	}
	return u
}

func (u use) cpu() (sum float64) {
	for _, t := range u[:useTimes] {
		sum += t
	}
	return sum
}

func (u use) perUnit() string {
	var cells []string
	for _, t := range append(slices.Clone(u[:useTimes]), u.cpu()) {
		cells = append(cells, orNone("%.0f", 1e6*t))
	}
	for _, n := range u[useTimes:] {
		cells = append(cells, orNone("%.3g", n))
	}
	return strings.Join(cells, " | ")
}

// layout is a service over its database: one MySQL server, or a gate, and a tablet and a MySQL server for each shard.
type layout struct {
	name string
	*paidShop
	vouchers map[string][]string // by kind, one in each shard
	orders   []string            // of this round
	begun    int64               // orders of each kind, of all rounds

	servers []*testkit.SQLServer
	direct  []*sql.DB // to the databases of the servers
	asked   []float64 // statements of this test to them
	gate    *testkit.VitessServers
	tablets []*testkit.VitessTablet
	sent    atomic.Int64 // round trips
}

func plainMySQL(b *testing.B) *layout {
	b.Helper()
	server := testkit.NewMySQL(b, shardFlags(1)...)
	where := server.Database(b)
	l := &layout{name: "MySQL", servers: []*testkit.SQLServer{server}, direct: []*sql.DB{open(b, where.DSN)}}
	l.open(b, where.DSN)
	return l
}

// shardFlags are the flags of a MySQL server. What the service sets for each session is so from the start: otherwise the gate
// would send it with every statement.
func shardFlags(id int) []string {
	return append(testkit.VitessFlags(id), "--transaction-isolation=READ-COMMITTED", "--default-time-zone=+00:00",
		"--sql-mode=STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
		"--innodb-lock-wait-timeout=3")
}

func onVitess(b *testing.B, name string, shards ...string) *layout {
	b.Helper()
	vschema, err := os.ReadFile("../deploy/vitess/vschema.json")
	fail.NowIf(b, err)
	l := &layout{name: name, gate: testkit.NewVitessServers(b, vschema)}
	for i, shard := range shards {
		const database = "vt_seckill"
		server := testkit.NewMySQL(b, shardFlags(1+i)...)
		tablet := l.gate.Tablet(shard, server, database)
		l.gate.Control("PlannedReparentShard", "seckill/"+shard, "--new-primary", tablet.Alias)
		l.servers, l.tablets = append(l.servers, server), append(l.tablets, tablet)
		l.direct = append(l.direct, open(b, "root@tcp("+server.Addr()+")/"+database))
	}
	l.open(b, l.gate.Gate().DSN)
	return l
}

// open starts the service, and puts the vouchers on sale.
func (l *layout) open(b *testing.B, dsn string) {
	b.Helper()
	config, err := mysql.ParseDSN(dsn)
	fail.NowIf(b, err)
	config.Addr = l.countRoundTrips(b, config.Addr)
	shop := &benchService{redis: testkit.NewRedis(b).Client(b), dsn: config.FormatDSN(), user: 1}
	l.paidShop = shop.openPaidShop(b)
	l.asked = make([]float64, len(l.servers))
	l.vouchers = make(map[string][]string)
	for kind, fields := range vitessVouchers() {
		in := make([][]string, len(l.servers))
		for wanted := 2 / len(l.servers); slices.ContainsFunc(in, func(there []string) bool { return len(there) < wanted }); {
			id := l.api.sell(b, time.Now(), fields)
			for shard := range l.servers {
				if l.ask(b, shard, "SELECT COUNT(*) FROM vouchers WHERE id = ?", id) == 1 {
					in[shard] = append(in[shard], id)
				}
			}
		}
		for _, there := range in {
			l.vouchers[kind] = append(l.vouchers[kind], there[:2/len(l.servers)]...)
		}
	}
}

// ask asks the server of a shard for a number.
func (l *layout) ask(b *testing.B, shard int, query string, args ...any) (n int64) {
	b.Helper()
	l.asked[shard]++
	fail.NowIf(b, l.direct[shard].QueryRowContext(b.Context(), query, args...).Scan(&n))
	return n
}

// count counts the orders of the vouchers of a kind that are in a state.
func (l *layout) count(b *testing.B, kind, state string) (n int64) {
	b.Helper()
	for shard := range l.servers {
		for _, voucher := range l.vouchers[kind] {
			n += l.ask(b, shard, "SELECT COUNT(*) FROM orders WHERE voucher_id = ? AND status = '"+state+"'", voucher)
		}
	}
	return n
}

// sold is how many units of the vouchers of a kind are sold.
func (l *layout) sold(b *testing.B, kind string) (n int64) {
	b.Helper()
	for shard := range l.servers {
		for _, voucher := range l.vouchers[kind] {
			n += l.ask(b, shard, "SELECT COALESCE(SUM(initial_stock - stock), 0) FROM vouchers WHERE id = ?", voucher)
		}
	}
	return n
}

// used is what was used so far.
func (l *layout) used(b *testing.B) (u use) {
	b.Helper()
	u[ofService] = find(b, metricsOf(b, l.api), `(?m)^process_cpu_seconds_total (\S+)`)
	u[ofRedis] = l.redisBusy(b)
	u[roundTrips] = float64(l.sent.Load())
	for shard, server := range l.servers {
		u[ofMySQL] += cpuTime(b, server.PID())
		status := l.statusOf(b, shard)
		u[inMySQL] += status["Questions"] - l.asked[shard]
		u[logged] += status["Binlog_cache_use"]
	}
	if l.gate == nil {
		return u
	}
	for _, tablet := range l.tablets {
		u[ofTablets] += cpuTime(b, tablet.PID())
	}
	u[ofGate] = cpuTime(b, l.gate.GatePID())
	for _, p := range l.gate.Plans() {
		u[atGate] += float64(p.ExecCount)
		u[toShards] += float64(p.ShardQueries)
	}
	return u
}

// statusOf reads what the server of a shard has counted.
func (l *layout) statusOf(b *testing.B, shard int) map[string]float64 {
	b.Helper()
	l.asked[shard]++
	rows, err := l.direct[shard].QueryContext(b.Context(), "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Binlog_cache_use')")
	fail.NowIf(b, err)
	defer rows.Close()
	status := map[string]float64{}
	for rows.Next() {
		var name string
		var n float64
		fail.NowIf(b, rows.Scan(&name, &n))
		status[name] = n
	}
	fail.NowIf(b, rows.Err())
	return status
}

func stat(b *testing.B, pid int) procfs.ProcStat {
	b.Helper()
	process, err := procfs.NewProc(pid)
	fail.NowIf(b, err)
	s, err := process.Stat()
	fail.NowIf(b, err)
	return s
}

func cpuTime(b *testing.B, pid int) float64 {
	b.Helper()
	return stat(b, pid).CPUTime()
}

// memory is a line of the table of what the processes have in memory.
func (l *layout) memory(b *testing.B) string {
	b.Helper()
	cells := []float64{find(b, metricsOf(b, l.api), `(?m)^process_resident_memory_bytes (\S+)`), 0, 0, float64(stat(b, l.servers[0].PID()).ResidentMemory())}
	if l.gate != nil {
		cells[1], cells[2] = float64(stat(b, l.gate.GatePID()).ResidentMemory()), float64(stat(b, l.tablets[0].PID()).ResidentMemory())
	}
	line := "| " + l.name
	for _, bytes := range cells {
		line += " | " + orNone("%.0f", bytes/1e6)
	}
	return line + " |"
}

// countRoundTrips forwards connections to a server, and counts the commands of the clients that are answered: packets that
// begin a new sequence.
func (l *layout) countRoundTrips(b *testing.B, server string) (addr string) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fail.NowIf(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go l.forward(client, server)
		}
	}()
	return listener.Addr().String()
}

func (l *layout) forward(client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	const header, closeStatement = 4, 0x19
	for from := bufio.NewReader(client); ; {
		head, err := from.Peek(header)
		if err != nil {
			return
		}
		first, length := head[3] == 0, int64(head[0])|int64(head[1])<<8|int64(head[2])<<16
		if first {
			if head, err = from.Peek(header + 1); err != nil {
				return
			}
			if head[header] != closeStatement {
				l.sent.Add(1)
			}
		}
		if _, err := io.CopyN(server, from, header+length); err != nil {
			return
		}
	}
}
