package experiments

import (
	"slices"

	"seckill/internal/lab"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
)

// successorAtRelease is the situation that the next holder has the lock from before a late release to after it.
func successorAtRelease() *lab.Situation {
	return &lab.Situation{
		Missed: i18n.F("nobody else had the lock when the late buyer released it"),
		Arose: func(h *judge.History) bool {
			return anySuccessor(h, func(late, next *judge.Hold) bool { return next.At < late.Releasing.At && next.End > late.Released.At })
		},
	}
}

// successorDuringRelease is the situation that the lock goes to the next holder between the two commands of a release.
func successorDuringRelease() *lab.Situation {
	return &lab.Situation{
		Missed: i18n.F("the lease did not end between GET and DEL, or nobody else had the lock by then"),
		Arose: func(h *judge.History) bool {
			return anySuccessor(h, func(late, next *judge.Hold) bool {
				over, known := late.LeaseEnd()
				within := known && over > late.Releasing.At && over < next.At && next.At < late.Released.At
				return within && late.Released.Error == "" // else the comparison came too late, or the deletion found nothing
			})
		},
	}
}

// anySuccessor reports whether a holder that has released, and one that is granted the same lock after it, are so.
func anySuccessor(h *judge.History, so func(late, next *judge.Hold) bool) bool {
	return slices.ContainsFunc(h.Holds, func(late *judge.Hold) bool {
		return late.Releasing != nil && late.Released != nil && slices.ContainsFunc(h.HoldsOf[late.Key], func(next *judge.Hold) bool {
			return next.At > late.At && next.Conflicts(late) && so(late, next)
		})
	})
}
