package judge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// A history is checked in parts, because the time for one part grows faster than its
	// length: it is cut where possible, and limited to a number of holds.
	fewestHolds, mostHolds = 50, 2_000
	// mutexTime limits the time for all histories together.
	mutexTime = 5 * time.Second
)

// Mutex asks porcupine whether the grants of each key are possible for a mutex, or for a
// read-write lock if they are shared: whether the grants and ends have an order that fits
// their times and admits no conflicting holders. It answers the same question as the count of
// overlaps in another way, and the two must agree. It also returns the number of operations
// that were checked.
func Mutex(ev Evidence) (porcupine.CheckResult, int) { return NewHistory(ev).mutex() }

func (h *History) mutex() (porcupine.CheckResult, int) {
	deadline := time.Now().Add(mutexTime)
	verdict, count := porcupine.Ok, 0
	for _, key := range h.keys() {
		for _, part := range cut(h.HoldsOf[key]) {
			if len(part) > mostHolds { // the result for the beginning holds for the whole only if it is illegal
				part, verdict = part[:mostHolds], porcupine.Unknown
			}
			ops := operations(part)
			count += len(ops)
			switch porcupine.CheckOperationsTimeout(mutexModel(part), ops, max(time.Until(deadline), 1)) {
			case porcupine.Illegal:
				return porcupine.Illegal, count
			case porcupine.Unknown:
				verdict = porcupine.Unknown
			}
		}
	}
	return verdict, count
}

// cut splits the holds of one key at moments at which nobody believes to hold it: a later
// grant cannot conflict with a hold that ended before.
func cut(holds []*Hold) [][]*Hold {
	var parts [][]*Hold
	begin, until := 0, int64(0)
	for i, h := range holds {
		if i-begin >= fewestHolds && until <= h.At {
			parts = append(parts, holds[begin:i])
			begin = i
		}
		until = max(until, h.End)
	}
	return append(parts, holds[begin:])
}

// step is an operation of the model: a hold begins or ends.
type step struct {
	hold int
	ends bool
}

// operations returns those of some holds of one key. A released hold ended at some time
// between the beginning and the end of its release. A hold that did not end has no such
// operation.
func operations(holds []*Hold) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(holds))
	for i, h := range holds {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: step{hold: i}, Call: h.Began, Return: h.At})
		if h.How == NotEnded {
			continue
		}
		to := h.End
		switch {
		case h.How == EndReleased && h.Released != nil:
			to = max(to, h.Released.At)
		case h.How == EndNotified:
			to = max(to, h.Lost.At)
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: step{hold: i, ends: true}, Call: h.End, Return: to})
	}
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}

// mutexModel is a lock that admits holders that do not conflict. Its state names the current
// holds.
func mutexModel(holds []*Hold) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, in, _ any) (bool, any) {
			s, inside := in.(step), strings.Fields(state.(string))
			name := strconv.Itoa(s.hold)
			place, was := slices.BinarySearch(inside, name)
			if s.ends {
				if was {
					inside = slices.Delete(inside, place, place+1)
				}
				return was, strings.Join(inside, " ")
			}
			for _, other := range inside {
				if i, err := strconv.Atoi(other); err != nil || holds[i].Conflicts(holds[s.hold]) {
					return false, state
				}
			}
			return !was, strings.Join(slices.Insert(inside, place, name), " ")
		},
	}
}
