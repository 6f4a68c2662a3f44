package chaos

import (
	"fmt"
	"testing"
	"time"

	"seckill/internal/database"
	"seckill/internal/idempotency"
	"seckill/internal/lock"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/pairing"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// TestSoakVitessAcrossShards carries out what writes to several shards, because it belongs to no voucher: a new pair, and the
// sweeps of old keys and locks.
func TestSoakVitessAcrossShards(t *testing.T) {
	testkit.Soak(t)
	vitess := newVitess(t)
	d, err := database.Open(t.Context(), database.Config{MySQL: vitess.Database().DSN})
	fail.NowIf(t, err)
	t.Cleanup(func() { fail.If(t, d.Close()) })
	fail.NowIf(t, fail.Of(d.Migrate(t.Context())))
	s := acrossShards{T: t, d: d, vitess: vitess}
	t.Run("pair", s.pair)
	t.Run("keys", s.keys)
	t.Run("locks", s.locks)
}

type acrossShards struct {
	*testing.T
	d      *database.DB
	vitess *testkit.VitessCluster
}

// many rows are in both shards.
const many = 20

func (s acrossShards) spread(t *testing.T, table, column string) {
	t.Helper()
	in := map[int]int{}
	for n := range many {
		in[s.vitess.ShardOf(table, column, fmt.Sprint(n+1))]++
	}
	t.Logf("%s: rows in the shards: %v", table, in)
	fail.Unequal(t, len(in), len(s.vitess.Shards), "shards with rows of %s", table)
}

// pair has two processes take the pair at the same time. One is told so, and the vouchers of all shards are to be cleared again.
func (s acrossShards) pair(t *testing.T) {
	now := time.Now()
	for id := range int64(many) {
		fail.NowIf(t, s.d.Vouchers().CreateVoucher(t.Context(), &voucher.Voucher{
			ID: id + 1, Title: "old", Stock: 1, InitialStock: 1, BeginAt: now, EndAt: now.Add(time.Hour), CreatedAt: now, Policy: voucher.DefaultPolicy(),
		}))
	}
	s.spread(t, "vouchers", "id")
	writers := s.d.Pools()["writers"]
	fail.NowIf(t, fail.Of(writers.ExecContext(t.Context(), "UPDATE vouchers SET admission_cleared = TRUE")))
	from, err := s.d.Pairs().Pair(t.Context())
	fail.NowIf(t, err)
	before := s.vitess.CrossShard()
	taken := make(chan bool, 2)
	for _, mark := range []string{"a", "b"} {
		go func() {
			is, err := s.d.Pairs().TakePair(t.Context(), from, pairing.Record{Generation: from.Generation + 1, Mark: mark, Partner: mark})
			fail.If(t, err)
			taken <- is
		}()
	}
	if one, other := <-taken, <-taken; one == other {
		t.Errorf("taken: %v and %v", one, other)
	}
	if s.vitess.CrossShard() == before {
		t.Error("no transaction wrote to both shards")
	}
	var left int
	fail.NowIf(t, writers.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM vouchers WHERE admission_cleared").Scan(&left))
	fail.Unequal(t, left, 0, "vouchers that count as cleared")
}

// keys sweeps the oldest keys, some at a time, and no other.
func (s acrossShards) keys(t *testing.T) {
	store, old := s.d.Idempotency(), time.Now().Add(-time.Hour)
	for user := range int64(many) {
		_, _, err := store.Begin(t.Context(), idempotency.Key{UserID: user + 1, Value: "k"}, idempotency.Fingerprint{1}, 1, old.Add(time.Duration(user)*time.Second), time.Time{})
		fail.NowIf(t, err)
	}
	s.spread(t, "idempotency_keys", "user_id")
	before := old.Add(many / 2 * time.Second)
	for _, want := range []int64{many/2 - 1, 1, 0} {
		n, err := store.Sweep(t.Context(), before, many/2-1)
		fail.NowIf(t, err)
		fail.Unequal(t, n, want, "swept")
	}
	for user := range int64(many) {
		_, there, err := store.Find(t.Context(), idempotency.Key{UserID: user + 1, Value: "k"})
		fail.If(t, err)
		fail.Unequal(t, there, user >= many/2, "key of user %d", user+1)
	}
}

// locks sweeps the rows of dead holders.
func (s acrossShards) locks(t *testing.T) {
	locker, err := row.New(s.d.RowPool(), row.Config{Expiry: true})
	fail.NowIf(t, err)
	t.Cleanup(func() { fail.If(t, locker.Close()) })
	for n := range many {
		lease, err := locker.Acquire(t.Context(), fmt.Sprint(n+1), lock.Options{TTL: time.Minute})
		fail.NowIf(t, err)
		lock.Abandon(lease)
	}
	s.spread(t, "lock_rows", "name")
	fail.NowIf(t, fail.Of(s.d.RowPool().ExecContext(t.Context(), "UPDATE lock_rows SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR")))
	live, err := locker.Acquire(t.Context(), "live", lock.Options{TTL: time.Minute})
	fail.NowIf(t, err)
	for _, want := range []int64{many - 1, 1, 0} {
		n, err := row.Sweep(t.Context(), s.d.RowPool(), many-1)
		fail.NowIf(t, err)
		fail.Unequal(t, n, want, "swept")
	}
	fail.If(t, live.Release(t.Context()))
}
