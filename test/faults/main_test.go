package faults

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// configSet may be called from any goroutine.
func configSet(t *testing.T, client *redis.Client, setting, value string) {
	t.Helper()
	fail.If(t, client.ConfigSet(t.Context(), setting, value).Err())
}

// waitForOrders waits until the database has that many orders.
func waitForOrders(s *harness.Sale, orders int) {
	s.T.Helper()
	testkit.Until(s.T, "all orders are in the database", func() bool { return s.Audit(0).Orders >= orders })
}
