package locktest

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// input is an operation of a history.
type input struct {
	kind      kind
	client    int    // the owner
	lease     int    // number among all leases; below 64
	token     uint64 // of a write
	contended bool   // an acquisition during which another one was under way
}

type kind string

const (
	try       kind = "try"
	wait      kind = "wait"
	release   kind = "release"
	write     kind = "write"
	removeKey kind = "remove key"
)

// output is the result of an operation.
type output struct {
	result result
	token  uint64 // of a grant
}

type result string

const (
	done    result = "done"
	refused result = "refused"
	expired result = "expired" // of a release: nobody holds the lock
	lost    result = "lost"    // of a release: another owner holds the lock
	failed  result = "failed"
)

// modelState is the state of every model: the owner, if there is one, and its leases.
type modelState struct {
	owner  int    // client + 1; 0 is nobody
	leases uint64 // one bit for each lease
	token  uint64 // the newest one that was granted
	newest uint64 // the newest one that the guarded register has seen
}

// modelRules are the differences between the models.
type modelRules struct {
	reenters  bool // a holder may acquire again
	tokens    bool // tokens grow with each holder and guard writes
	splitVote bool // a try may be refused because another one is under way
}

func (r modelRules) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return modelState{} },
		Step: func(state, in, out any) (bool, any) {
			return r.step(state.(modelState), in.(input), out.(output))
		},
		Hash: func(state any) uint64 {
			h := state.(modelState)
			return (uint64(h.owner)*31+h.leases)*31 + h.token*31 + h.newest
		},
		DescribeOperation: func(in, out any) string { return in.(input).describe(out.(output)) },
		DescribeState: func(state any) string {
			h := state.(modelState)
			if h.owner == 0 {
				return "free"
			}
			return fmt.Sprintf("held by %d", h.owner-1)
		},
	}
}

// step reports whether out is a legal result of in, and returns the next state.
func (r modelRules) step(s modelState, in input, out output) (bool, modelState) {
	me, bit := in.client+1, uint64(1)<<in.lease
	switch in.kind {
	case try, wait:
		if out.result == refused {
			// A refusal is legal if another owner holds the lock, or any owner if there is no re-entry.
			taken := s.owner != 0 && (s.owner != me || !r.reenters)
			return taken || r.splitVote && in.contended, s
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
	case removeKey:
		s.owner, s.leases = 0, 0
		return true, s
	}
	return false, s
}

func (r modelRules) grant(s modelState, me int, bit uint64, out output) (bool, modelState) {
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

func (r modelRules) giveBack(s modelState, me int, bit uint64, out output) (bool, modelState) {
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
	case lost:
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
