package harness

import (
	"strings"

	"seckill/internal/testkit"
)

// AtRest waits until no order is in flight, and returns the audit. Entries of a dead process are claimed by
// another one after 30 s.
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

// CheckSoldOut checks that all stock was sold by admission, and nothing twice. It returns how many of the
// accepted orders are not confirmed.
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

// CheckAllConfirmed is checkSoldOut, and no accepted order may be lost.
func (s *Sale) CheckAllConfirmed(stock int, orders map[string]int) {
	s.T.Helper()
	if lost := s.CheckSoldOut(0, stock, orders); lost > 0 {
		s.T.Errorf("%d accepted orders were lost", lost)
	}
}

const AdmissionPolicy = `{"flow":"admission"}`
