package server

import (
	"strings"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
)

// level is a lock, a budget of bad luck, and what the visitor tries to bring about with it.
type level struct {
	ID     string
	Lock   string
	Buyers int
	Budget explore.Budget
	Aim    finding.Kind
	// Shortest are the steps of the shortest schedule with the fewest adversities; "": no schedule within the budget
	// comes to the aim. A test compares both with what a search finds.
	Shortest string
	// Sampled says that the shortest one is only the shortest that is known: a search does not come that far.
	Sampled bool
}

// levels returns the levels, from the weakest lock to the strongest.
func levels() []level {
	const two = 2
	held := explore.Budget{explore.Preemption: 1, explore.Expiry: 1}
	between := explore.Budget{explore.Preemption: 2, explore.Expiry: 1}
	paused := explore.Budget{explore.Pausing: 1, explore.Jumping: 1}
	emptied := explore.Budget{explore.Preemption: 1, explore.Restarting: 1}
	return []level{
		{"naive", "naive", two, held, finding.Overlaps, "s1-q1-r1-t-s2-q2-r2", false},
		{"thread-id", "thread-id", two, held, finding.LostUpdates, "s1-q1-r1-t-s2-q2-r2-w2-q2-r2-q2-r2-w1", false},
		{"uuid", "uuid", two, between, finding.WrongReleases, "s1-q1-r1-w1-q1-t-s2-q2-r2-r1-q1", false},
		{"lua", "lua", two, between, finding.WrongReleases, "", false},
		{"reentrant", "reentrant", two, paused, finding.StaleWrites, "s1-q1-r1-z1-s2-g1-j1-q2-r2-w2-q2-r2-w1", false},
		{"red", "red", two, emptied, finding.Overlaps, "s1-q1-q1-r1-r1-t-e1-s2-q2-q2-q2-r2-r2-r2", true},
		{"fenced", "fenced", two, paused, finding.StaleWrites, "", false},
	}
}

// par is the number of steps of the shortest schedule; 0: there is none.
func (l level) par() int {
	if l.Shortest == "" {
		return 0
	}
	return strings.Count(l.Shortest, "-") + 1
}
