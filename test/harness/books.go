package harness

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"seckill/internal/reconcile"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Audit is the audit of a voucher, through the i-th process.
type Audit struct {
	InitialStock    int `json:"initial_stock"`
	Stock           int
	Orders          int
	Oversold        int
	DuplicateOrders int `json:"duplicate_orders"`
	Unaccounted     int
	Pending         int
	Balanced        bool
}

// Audit asks the i-th process for the audit.
func (s *Sale) Audit(i int) (a Audit) {
	s.T.Helper()
	status, body := Ask(s.T, s.URLs[i]+"/api/v1/vouchers/"+s.Voucher+"/audit", 1)
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK {
		s.T.Fatalf("audit: %d %s", status, body)
	}
	return a
}

// CheckBalanced fails the test if anything is oversold, duplicated or lost.
func (s *Sale) CheckBalanced(i int, codes, orders map[string]int) {
	s.T.Helper()
	a := s.Audit(i)
	if !a.Balanced || a.Oversold != 0 || a.DuplicateOrders != 0 {
		s.T.Errorf("the audit is not balanced: %+v", a)
	}
	if len(orders) > a.Orders {
		s.T.Errorf("%d orders were accepted, the database has %d", len(orders), a.Orders)
	}
	s.T.Logf("%v; %+v", codes, a)
}

// AtRest waits until no order is in flight, and returns the audit. Entries of a dead process are claimed by another one
// after 30 s.
func (s *Sale) AtRest(i int) Audit {
	s.T.Helper()
	var a Audit
	testkit.Until(s.T, "no order is in flight", func() bool {
		a = s.Audit(i)
		return a.Pending == 0
	})
	return a
}

// Status returns the status of an order as its user sees it.
func (s *Sale) Status(i int, order string, user int, wait string) string {
	s.T.Helper()
	_, body := Ask(s.T, s.URLs[i]+"/api/v1/orders/"+order+wait, user)
	_, status, _ := strings.Cut(body, `"status":"`)
	status, _, _ = strings.Cut(status, `"`)
	return status
}

// CheckSoldOut checks that all stock was sold by admission, and nothing twice. It returns how many of the accepted
// orders are not confirmed.
func (s *Sale) CheckSoldOut(i, stock int, orders map[string]int) (lost int) {
	s.T.Helper()
	a := s.AtRest(i)
	if a.Orders != stock || a.Stock != 0 || !a.Balanced {
		s.T.Errorf("the sale is wrong: %+v", a)
	}
	confirmed := map[string]int{}
	for id, user := range orders {
		confirmed[s.Status(i, id, user, "")]++
	}
	s.T.Logf("%d accepted: %v; %+v", len(orders), confirmed, a)
	return len(orders) - confirmed["confirmed"]
}

// CheckAllConfirmed is [Sale.CheckSoldOut], and no accepted order may be lost.
func (s *Sale) CheckAllConfirmed(stock int, orders map[string]int) {
	s.T.Helper()
	if lost := s.CheckSoldOut(0, stock, orders); lost > 0 {
		s.T.Errorf("%d accepted orders were lost", lost)
	}
}

// AdmissionPolicy sells by admission, in one bucket.
const AdmissionPolicy = `{"flow":"admission"}`

// RunReconcile runs the command in a process of its own.
func RunReconcile(t *testing.T, s Stores, args ...string) (exit int, output string, r reconcile.Report) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, SelfPath(t), append([]string{"reconcile"}, args...)...)
	cmd.Env = append(os.Environ(), AsService, "SECKILL_MYSQL_DSN="+s.DB.DSN, "SECKILL_REDIS_ADDRS="+strings.Join(s.Redis, ","))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		failed, isExit := errors.AsType[*exec.ExitError](err)
		if !isExit {
			t.Fatal(err)
		}
		exit = failed.ExitCode()
	}
	if strings.HasPrefix(out.String(), "{") {
		fail.If(t, json.Unmarshal([]byte(out.String()), &r), "%s", out.String())
	}
	return exit, out.String() + errs.String(), r
}
