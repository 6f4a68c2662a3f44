package service_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seckill/internal/eventlog"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// The events of an order are in the file before the buyer is answered, under the name of the process. A second process
// appends to the file of the first one.
func TestOrdersAreRecorded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events")
	for _, name := range []string{"", "api-2"} {
		var environ []string
		want := fmt.Sprintf("api-%d", os.Getpid())
		if name != "" {
			environ, want = []string{"SECKILL_LAB_NAME=" + name}, name
		}
		s := harness.StartInProcess(t, []string{"-lab-trace", file, "-lock-watchdog", "5s"}, environ)
		if status, body := s.Buy(t); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		data, err := os.ReadFile(file)
		fail.NowIf(t, err)
		events, err := eventlog.Parse(data)
		fail.NowIf(t, err)
		committed := false
		for _, e := range events {
			if e.Process != want {
				continue
			}
			committed = committed || e.Kind == eventlog.Committed
			if !strings.HasPrefix(e.Who, "buyer ") || e.Voucher == 0 || e.User == 0 {
				t.Errorf("%+v", e)
			}
			if e.Kind == eventlog.Acquired && (e.Mechanism != "reentrant" || e.LeftMS == nil || *e.LeftMS <= 0 || *e.LeftMS > 5000) {
				t.Errorf("%+v", e)
			}
		}
		if !committed {
			t.Errorf("%s committed nothing: %+v", want, events)
		}
		fail.If(t, s.End())
	}
}
