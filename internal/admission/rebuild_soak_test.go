package admission_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission"
	"seckill/internal/database"
	"seckill/internal/fulfil"
	"seckill/internal/lock/local"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// TestSoakRebuild measures for how long a voucher is closed after Redis was emptied, by its number of orders. One order
// in three has an idempotency key, and the users come in no order.
func TestSoakRebuild(t *testing.T) {
	testkit.Soak(t)
	where := testkit.NewMariaDB(t, "--innodb-buffer-pool-size=128M").Database(t) // the server's default
	db, err := database.Open(t.Context(), configOf(where))
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.Migrate(t.Context())
	fail.NowIf(t, err)
	client := redis.NewClient(&redis.Options{Addr: testkit.NewRedis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	fulfiller, err := fulfil.New(fulfil.Config{Client: client, Store: db.AdmissionStore(), Orders: db.Orders(), Log: slog.New(slog.DiscardHandler)})
	fail.NowIf(t, err)
	gate, err := admission.New(admission.Config{Client: client, Store: db.AdmissionStore(), Workers: fulfiller, Locker: local.New(), Log: slog.New(slog.DiscardHandler)})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = gate.Close() })
	for _, tc := range []struct{ orders, buckets int }{{1000, 1}, {100_000, 1}, {100_000, 8}, {1_000_000, 1}} {
		v := sold(t, db, where, int64(tc.orders), tc.buckets)
		begun := time.Now()
		fail.NowIf(t, gate.Open(t.Context(), v))
		took := time.Since(begun)
		var users int64
		keys, err := client.Keys(t.Context(), fmt.Sprintf("adm:{%d*:users", v.ID)).Result()
		fail.NowIf(t, err)
		for _, key := range keys {
			users += client.HLen(t.Context(), key).Val()
		}
		t.Logf("%d orders in %d buckets: open after %v, %.1f µs for each", tc.orders, tc.buckets, took.Round(time.Millisecond), float64(took.Microseconds())/float64(tc.orders))
		fail.Unequal(t, users, int64(tc.orders), "users in Redis")
		fail.NowIf(t, client.FlushAll(t.Context()).Err())
	}
}

// sold returns a voucher on sale with so many orders. Redis knows nothing of them.
func sold(t *testing.T, db *database.DB, where testkit.Database, orders int64, buckets int) *voucher.Voucher {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	v := &voucher.Voucher{
		ID: time.Now().UnixNano(), Title: "sold", Stock: orders + 10, InitialStock: orders + 10,
		BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), Policy: voucher.DefaultPolicy(), CreatedAt: now,
	}
	v.Policy.Flow = voucher.FlowAdmission
	if buckets > 1 {
		v.Policy.Buckets = buckets
	}
	fail.NowIf(t, db.Vouchers().CreateVoucher(t.Context(), v))
	raw, err := sql.Open("mysql", where.DSN)
	fail.NowIf(t, err)
	defer raw.Close()
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at, key_hash)
			SELECT %[1]d + seq, %[2]d, seq * 7919 %% 15485863, seq * 7919 %% 15485863, 'confirmed', NOW(6), IF(seq %% 3 = 0, seq * 1000003, NULL)
			FROM seq_1_to_%[3]d`, v.ID, v.ID, orders),
		fmt.Sprintf("UPDATE vouchers SET stock = 10, admission_seq = %d WHERE id = %d", orders, v.ID),
	} {
		_, err := raw.ExecContext(context.WithoutCancel(t.Context()), statement)
		fail.NowIf(t, err)
	}
	return v
}
