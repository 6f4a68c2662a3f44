package locktest

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// input is an operation of a history.
type input struct {
	kind      kind
	client    int    // the owner
	lease     int    // which of all leases; below 64
	token     uint64 // of a write
	contended bool   // an acquisition: another one was under way at the same time
}

type kind string

const (
	try      kind = "try"
	wait     kind = "wait"
	release  kind = "release"
	write    kind = "write"
	takeAway kind = "take away"
)

// output is what came of it.
type output struct {
	result result
	token  uint64 // of a grant
}

type result string

const (
	done    result = "done"
	refused result = "refused"
	expired result = "expired" // a release: nobody holds the lock
	lostTo  result = "lost"    // a release: somebody else does
	failed  result = "failed"
)

// holding is the state of every model: the leases of the one owner there may be.
type holding struct {
	owner  int    // client + 1; 0 is nobody
	leases uint64 // a bit for each lease
	token  uint64 // the newest that was given
	newest uint64 // the newest that the guarded register has seen
}

// rules are what the models differ in.
type rules struct {
	reenters bool // an owner that holds may acquire again
	tokens   bool // tokens grow with each holder, and guard writes
	votes    bool // a try may be refused because of another one under way
}

func (r rules) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return holding{} },
		Step: func(state, in, out any) (bool, any) {
			return r.step(state.(holding), in.(input), out.(output))
		},
		Hash: func(state any) uint64 {
			h := state.(holding)
			return (uint64(h.owner)*31+h.leases)*31 + h.token*31 + h.newest
		},
		DescribeOperation: func(in, out any) string { return in.(input).describe(out.(output)) },
		DescribeState: func(state any) string {
			h := state.(holding)
			if h.owner == 0 {
				return "free"
			}
			return fmt.Sprintf("held by %d", h.owner-1)
		},
	}
}

// step says whether out may come of in, and what is then.
func (r rules) step(s holding, in input, out output) (bool, holding) {
	me, bit := in.client+1, uint64(1)<<in.lease
	switch in.kind {
	case try, wait:
		if out.result == refused {
			// Somebody has it: another owner, or anybody where there is no re-entry.
			taken := s.owner != 0 && (s.owner != me || !r.reenters)
			return taken || r.votes && in.contended, s
		}
		return r.grant(s, me, bit, out)
	case release:
		return r.giveBack(s, me, bit, out)
	case write:
		if out.result == refused {
			return in.token < s.newest, s
		}
		next := s
		next.newest = max(s.newest, in.token)
		return in.token >= s.newest, next
	case takeAway:
		s.owner, s.leases = 0, 0
		return true, s
	}
	return false, s
}

func (r rules) grant(s holding, me int, bit uint64, out output) (bool, holding) {
	again := s.owner == me && r.reenters
	if out.result != done || s.owner != 0 && !again {
		return false, s
	}
	if r.tokens {
		if again && out.token != s.token || !again && out.token <= s.token {
			return false, s
		}
		s.token = out.token
	}
	s.owner, s.leases = me, s.leases|bit
	return true, s
}

func (r rules) giveBack(s holding, me int, bit uint64, out output) (bool, holding) {
	mine := s.owner == me && s.leases&bit != 0
	switch out.result {
	case done:
		if !mine {
			return false, s
		}
		if s.leases &^= bit; s.leases == 0 {
			s.owner = 0
		}
		return true, s
	case expired:
		return s.owner == 0 || s.owner == me && !mine, s
	case lostTo:
		return s.owner != 0 && s.owner != me, s
	}
	return false, s
}

func (in input) describe(out output) string {
	s := fmt.Sprintf("%s by %d: %s", in.kind, in.client, out.result)
	if in.token != 0 || out.token != 0 {
		s += fmt.Sprintf(", token %d", in.token+out.token)
	}
	return s
}
