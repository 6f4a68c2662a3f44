package harness

import ()

// SameOrder reports whether two answers tell of one order, which may be confirmed by now, or are the same refusal.
func SameOrder(a, b Outcome) bool { return a.Order == b.Order && (a.Order != "" || a.Code == b.Code) }
