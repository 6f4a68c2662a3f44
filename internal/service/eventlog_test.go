package service_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/service"
	"seckill/test/harness"
)

func TestLabSettings(t *testing.T) {
	c, err := service.ParseConfig([]string{"-lab-trace", "events", "-lock-watchdog", "1h"}, []string{"SECKILL_LAB_NAME=api-1"}, io.Discard)
	if err != nil || c.LabTrace != "events" || c.LabName != "api-1" || c.LockWatchdog != time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
}

// The events of an order are in the file before the buyer is answered, under the name of the process. A second
// process appends to the file of the first one.
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
		if err != nil {
			t.Fatal(err)
		}
		events, err := eventlog.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
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
		if err := s.End(); err != nil {
			t.Error(err)
		}
	}
}

func TestTraceThatCannotBeWritten(t *testing.T) {
	cfg, err := service.ParseConfig([]string{"-addr", "127.0.0.1:0", "-lab-trace", t.TempDir()}, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Run(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "SECKILL_LAB_TRACE: ") {
		t.Errorf("err = %v", err)
	}
}

// The simplest locks support inspection too: here of a holder that died.
func TestWhoHoldsASimpleLock(t *testing.T) {
	t.Parallel()
	s := harness.StartInProcess(t, nil, nil)
	url := regexp.MustCompile(`http://[^\s,]+`).FindString(s.Banner)
	for mechanism, endless := range map[string]bool{
		"setnx": true, "setnx-expire": false, "naive": false, "thread-id": false, "uuid": false, "uuid-wrong-key": false, "lua": false,
	} {
		sale := harness.OpenSale(t, 5, fmt.Sprintf(`{"lock":%q,"faults":[{"point":"after-commit","effect":"abandon"}]}`, mechanism), harness.Process{URL: url})
		sale.Buy(0, 42, "")
		_, body := harness.Call(t, http.MethodGet, url+"/api/v1/locks/order:"+sale.Voucher+":42", nil, "")
		var seen struct {
			Locks []struct {
				Mechanism, Owner string
				TTLMS            *int64 `json:"ttl_ms"`
			}
		}
		if err := json.Unmarshal([]byte(body), &seen); err != nil {
			t.Fatal(err)
		}
		if len(seen.Locks) != 1 || seen.Locks[0].Mechanism != mechanism || seen.Locks[0].Owner == "" || (seen.Locks[0].TTLMS == nil) != endless {
			t.Errorf("%s: %s", mechanism, body)
		}
	}
}
