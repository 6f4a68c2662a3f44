package forupdate_test

import (
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/forupdate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestNewNeedsDatabase(t *testing.T) {
	fail.Unless(t, fail.Of(forupdate.New(nil, forupdate.Config{})), lock.ErrInvalid, "New(nil)")
}
