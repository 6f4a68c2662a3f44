package getlock_test

import (
	"database/sql"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/getlock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestName(t *testing.T) {
	fail.Unequal(t, getlock.Name("shop:", "voucher:1"), "lock:shop:voucher:1", "a plain key is called")
	seen := make(map[string]string)
	for _, key := range []string{"seat", "Seat", "SEAT", "座位", "seat 1", strings.Repeat("k", 59),
		strings.Repeat("k", 60), strings.Repeat("k", 256)} {
		name := strings.ToLower(getlock.Name("", key)) // as the servers compare
		if len(name) > 64 {
			t.Errorf("the name of %q is %d characters long", key, len(name))
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both called %q", key, other, name)
		}
		seen[name] = key
	}
}

func TestNewNeedsDatabase(t *testing.T) {
	fail.Unless(t, fail.Of(getlock.New(nil, getlock.Config{})), lock.ErrInvalid, "New(nil)")
	negative := getlock.Config{Config: mysqlio.Config{CheckEvery: -1}}
	fail.Unless(t, fail.Of(getlock.New(&sql.DB{}, negative)), lock.ErrInvalid, "New with a negative interval")
}
