package stores

import (
	"database/sql"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"seckill/internal/database"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// The model answers as real databases do: the shortest counterexamples and some other interleavings are replayed,
// statement by statement. Each process must see the same results, wait where the model says, and leave the same rows.
//
// SQLite has one writer, whom others wait for as they do for the voucher's row, but in no order. So only two orders are
// replayed there.
func TestModelAnswersAsDatabases(t *testing.T) {
	t.Parallel()
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		b := openBed(t, where)
		id, replayed, waits, broken := int64(0), 0, 0, 0
		all := policies()
		for n, name := range slices.Sorted(maps.Keys(all)) {
			for _, s := range sales(all[name].policy) {
				if b.waiting == nil && len(s.users) > 2 {
					continue
				}
				schedules := [][]int{s.random(t, 1, n), s.random(t, 2, n)}
				if len(s.users) == 2 || len(all[name].broken) > 0 && s.policy.Lock == "none" {
					f, _ := s.explore(t)
					shortest := f.after(-1)
					for _, anomaly := range slices.Sorted(maps.Keys(shortest)) {
						schedules = append(schedules, shortest[anomaly].schedule)
						broken++
					}
				}
				for _, schedule := range schedules {
					id++
					s.id = id
					waits += b.replay(t, s, schedule)
					replayed++
				}
				if t.Failed() {
					t.Fatal(name)
				}
			}
		}
		t.Logf("%d interleavings, %d of them counterexamples; %d statements waited for another transaction", replayed, broken, waits)
	})
}

// random is a schedule of the sale. The same seed gives the same.
func (s sale) random(t *testing.T, seed uint64, of int) (schedule []int) {
	r, source := s.start(t.Context(), newReadCommitted(s.stock)), rand.New(rand.NewPCG(seed, uint64(of)))
	for ready := r.ready(); len(ready) > 0; ready = r.ready() {
		number := ready[source.IntN(len(ready))]
		schedule = append(schedule, number)
		r.take(number)
		r.settle()
	}
	return schedule
}

// bed is a real database.
type bed struct {
	db *database.DB
	// waiting is how many statements wait for a lock; nil on SQLite, which does not say.
	waiting func() int
}

func openBed(t *testing.T, where testkit.Database) *bed {
	config := database.Config{MySQL: where.DSN}
	if where.Engine == "sqlite" {
		config = database.Config{SQLite: where.DSN}
	}
	d, err := database.Open(t.Context(), config)
	fail.NowIf(t, err)
	t.Cleanup(func() { fail.If(t, d.Close()) })
	fail.NowIf(t, fail.Of(d.Migrate(t.Context())))
	if where.Engine == "sqlite" {
		return &bed{db: d}
	}
	pool, err := sql.Open("mysql", where.DSN)
	fail.NowIf(t, err)
	t.Cleanup(func() { fail.If(t, pool.Close()) })
	return &bed{db: d, waiting: func() int {
		var kind, name, status string
		fail.NowIf(t, pool.QueryRowContext(t.Context(), "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status))
		return strings.Count(status, "\nLOCK WAIT ")
	}}
}

// replay plays a schedule on the model and on the database at the same time, and returns how many statements waited.
func (b *bed) replay(t *testing.T, s sale, schedule []int) (waits int) {
	t.Helper()
	v := s.voucher()
	v.Policy = voucher.DefaultPolicy() // the database does not look at it, and knows no lock for tests
	fail.NowIf(t, b.db.Vouchers().CreateVoucher(t.Context(), v))
	model := newReadCommitted(s.stock)
	want, got := s.start(t.Context(), model), s.start(t.Context(), b.db.Orders())
	defer got.abandon()
	for _, number := range schedule {
		want.take(number)
		want.settle()
		got.take(number)
		inDatabase := 0
		for _, n := range want.queue {
			if want.processes[n].next != lockStep {
				inDatabase++
			}
		}
		if !got.settleIn(inDatabase) {
			t.Fatalf("a statement waits, and in the model it does not:\n%s", strings.Join(want.taken, "\n"))
		}
		if slices.Contains(want.queue, number) && want.processes[number].next != lockStep {
			waits++
			if b.waiting != nil {
				testkit.Until(t, "a statement waits for another transaction", func() bool { return b.waiting() == inDatabase })
			}
		}
	}
	for i, p := range want.processes {
		if !slices.Equal(got.processes[i].saw, p.saw) {
			t.Errorf("%s\nprocess %d saw %q, in the model %q", strings.Join(want.taken, "\n"), i+1, got.processes[i].saw, p.saw)
		}
	}
	audit, err := b.db.Orders().Audit(t.Context(), v.ID)
	fail.NowIf(t, err)
	fail.Unequal(t, audit, model.audit(), "%s\naudit", strings.Join(want.taken, "\n"))
	return waits
}
