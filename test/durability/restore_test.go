package durability

import (
	"database/sql"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestSoakRestore takes a backup of both stores in the middle of a sale by admission, as a snapshot of their folders
// while they stand still for a moment, sells on, and restores one of them or both. It shows which orders are lost, what
// api reconcile says of it, and that the sale is right again after what docs/deploy.md (Backup and restore) says to do.
func TestSoakRestore(t *testing.T) {
	testkit.Soak(t)
	for name, restored := range map[string]struct{ database, redis bool }{
		"the database": {database: true}, "Redis": {redis: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRestore(t)
			r.sellAndBackUp()
			if restored.database {
				r.mariadb.Kill()
				replaceFolder(t, r.dataFolder, r.ofDatabase)
				r.mariadb.Restart()
			}
			if restored.redis {
				r.redis.Kill()
				replaceFolder(t, r.redis.Dir(), r.ofRedis)
				r.redis.Restart()
			}
			r.compare(restored.database, restored.redis)
			if restored.database {
				fail.NowIf(t, r.redis.Client(t).FlushAll(t.Context()).Err())
			}
			r.sellOn()
		})
	}
}

type restoreTest struct {
	*testing.T
	mariadb             *testkit.SQLServer
	redis               *testkit.RedisServer
	servers             harness.Stores
	sale                *harness.Sale
	dataFolder          string // of the database
	ofDatabase, ofRedis string // the backups
	told                map[string]int
	left                int // orders in the database after the restore
}

// The number of buyers before the restore, and the stock, which is sold out after it.
const restoreBuyers, restoreStock = 400, 500

func openRestore(t *testing.T) *restoreTest {
	t.Helper()
	r := &restoreTest{T: t, mariadb: testkit.NewMariaDB(t), redis: testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")}
	r.servers = harness.Stores{DB: r.mariadb.Database(t), Redis: []string{r.redis.Addr()}}
	r.dataFolder = dataFolderOf(t, r.servers.DB)
	return r
}

// sellAndBackUp takes the backups after half of the orders, and stops the service when all are confirmed.
func (r *restoreTest) sellAndBackUp() {
	r.Helper()
	p := harness.Start(r.T, r.servers)
	r.sale = harness.OpenSale(r.T, restoreStock, harness.AdmissionPolicy, p)
	var backup sync.Once
	_, r.told = r.sale.OrderAll(restoreBuyers, 1, func(answered int) {
		if answered < restoreBuyers/2 {
			return
		}
		backup.Do(func() {
			r.mariadb.Pause()
			r.ofDatabase = copyFolder(r.T, r.dataFolder)
			r.mariadb.Resume()
			r.redis.Pause()
			r.ofRedis = copyFolder(r.T, r.redis.Dir())
			r.redis.Resume()
		})
	})
	if a := r.sale.AtRest(0); a.Orders != len(r.told) || len(r.told) != restoreBuyers {
		r.Fatalf("%d orders were accepted: %+v", len(r.told), a)
	}
	if err := p.Stop(); err != nil {
		r.Fatal(err)
	}
}

// compare checks what is lost, and what api reconcile says.
func (r *restoreTest) compare(database, redis bool) {
	r.Helper()
	r.left = len(harness.Statuses(r.T, r.servers.DB, r.sale.Voucher))
	exit, output, _ := harness.RunReconcile(r.T, r.servers)
	r.Logf("%d orders were accepted, %d are not in the database; exit code %d\n%s", len(r.told), len(r.told)-r.left, exit, output)
	if lost := len(r.told) - r.left; database != (lost > 0) {
		r.Errorf("%d orders are lost", lost)
	}
	_, _, report := harness.RunReconcile(r.T, r.servers, "-json")
	if len(report.Vouchers) != 1 {
		r.Fatalf("%+v", report)
	}
	v := report.Vouchers[0]
	switch lost := int64(len(r.told) - r.left); {
	case database && !redis && (exit != 1 || v.Drift != lost): // Redis counts orders that the database does not have
		r.Errorf("reconcile: exit code %d, drift %d, lost %d", exit, v.Drift, lost)
	case redis && !database && (exit != 1 || v.Drift >= 0): // Redis has stock that is sold
		r.Errorf("reconcile: exit code %d, drift %d", exit, v.Drift)
	}
}

// sellOn lets the same buyers and as many others order: those whose order is lost are accepted again, all stock is
// sold, and everything adds up.
func (r *restoreTest) sellOn() {
	r.Helper()
	p := harness.Start(r.T, r.servers)
	harness.WaitReady(r.T, p) // what was restored and what was not are a pair again after some seconds
	r.sale.URLs = []string{p.URL}
	codes, orders := r.sale.OrderAll(2*restoreBuyers, 1, nil)
	a := r.sale.AtRest(0)
	exit, output, _ := harness.RunReconcile(r.T, r.servers, "-dead")
	r.Logf("after the start %v; %+v; exit code %d\n%s", codes, a, exit, output)
	status := harness.Statuses(r.T, r.servers.DB, r.sale.Voucher)
	for id := range orders {
		if status[id] != "confirmed" {
			r.Errorf("order %s was accepted and is %q", id, status[id])
		}
	}
	if exit != 0 || !a.Balanced || a.Orders != restoreStock || len(status) != restoreStock || len(orders) != restoreStock-r.left || a.DuplicateOrders != 0 {
		r.Errorf("%d were left, %d accepted, %d are in the database: %+v", r.left, len(orders), len(status), a)
	}
}

// dataFolderOf returns where a database server keeps its files.
func dataFolderOf(t *testing.T, where testkit.Database) (folder string) {
	t.Helper()
	db, err := sql.Open("mysql", where.DSN)
	fail.NowIf(t, err)
	defer db.Close()
	fail.NowIf(t, db.QueryRowContext(t.Context(), "SELECT @@datadir").Scan(&folder))
	return filepath.Clean(folder)
}

func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "backup")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return to
}

func replaceFolder(t *testing.T, folder, backup string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "bash", "-c", `rm -rf "$1"/* && cp -a "$2"/. "$1"`, "restore", folder, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
