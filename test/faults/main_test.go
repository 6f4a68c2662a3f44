package faults

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// configSet may be called from any goroutine.
func configSet(t *testing.T, client *redis.Client, setting, value string) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), setting, value).Err(); err != nil {
		t.Error(err)
	}
}

// counter reads a metric of a process.
func counter(t *testing.T, p harness.Process, name string) float64 {
	t.Helper()
	_, body := harness.Call(t, http.MethodGet, p.URL+"/metrics", nil, "")
	_, text, found := strings.Cut(body, "\n"+name+" ")
	text, _, _ = strings.Cut(text, "\n")
	n, err := strconv.ParseFloat(text, 64)
	if !found || err != nil {
		t.Fatalf("no %s: %v", name, err)
	}
	return n
}

// waitForOrders waits until the database has that many orders.
func waitForOrders(s *harness.Sale, orders int) {
	s.T.Helper()
	testkit.Until(s.T, "all orders are in the database", func() bool { return s.Audit(0).Orders >= orders })
}
