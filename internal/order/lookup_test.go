package order

import (
	"testing"
	"time"
)

// An unpaid order's payment is looked up before its time is over, soon after that, and never in a rush.
func TestLookupsOfAPaymentThatStaysOpen(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, within := range []time.Duration{time.Second, 5 * time.Second, time.Minute, 15 * time.Minute, 7 * 24 * time.Hour} {
		payBy := created.Add(within)
		at := FirstLookup(created, payBy)
		if at.Before(created) || at.After(payBy) {
			t.Errorf("to be paid within %v: the first look-up is after %v", within, at.Sub(created))
		}
		first, early := time.Time{}, 0
		for range 2000 {
			last := at
			if at.Before(payBy) {
				early++
			} else if first.IsZero() {
				first = at
			}
			if at = NextLookup(at, payBy); !at.After(last) || at.Sub(last) > longestLookup {
				t.Fatalf("to be paid within %v: a look-up %v after the one before", within, at.Sub(last))
			}
		}
		if late := first.Sub(payBy); late > afterPayBy {
			t.Errorf("to be paid within %v: the first look-up after that is %v late", within, late)
		}
		if within >= time.Minute && early < 3 || early > 20+int(within/longestLookup) {
			t.Errorf("to be paid within %v: %d look-ups before that", within, early)
		}
	}
}
