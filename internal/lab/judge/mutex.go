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
	// A history is pondered in parts, since the time for one grows faster than its
	// length: it is cut where it can be, and not longer than so many holds.
	fewestHolds, mostHolds = 50, 2_000
	// mutexTime is how long all histories together are pondered.
	mutexTime = 5 * time.Second
)

// Mutex asks porcupine whether the grants of each key could have been those of a
// mutex (of a readers' and writer's lock where they are shared): whether there is an
// order of all grants and ends that fits their times and lets nobody in beside
// another. It is another way to the answer that the count of overlaps gives, and
// they must agree. It returns how many operations were judged, too.
func Mutex(ev Evidence) (porcupine.CheckResult, int) { return newHistory(ev).mutex() }

func (h *history) mutex() (porcupine.CheckResult, int) {
	deadline := time.Now().Add(mutexTime)
	verdict, count := porcupine.Ok, 0
	for _, key := range h.keys() {
		for _, part := range cut(h.of[key]) {
			if len(part) > mostHolds { // what holds for its beginning does not for all of it, unless it is illegal
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

// cut cuts the holds of one key where nobody believes to hold it: who is granted it
// later cannot be in the way of who has given it back before.
func cut(holds []*hold) [][]*hold {
	var parts [][]*hold
	begin, until := 0, int64(0)
	for i, h := range holds {
		if i-begin >= fewestHolds && until <= h.at {
			parts = append(parts, holds[begin:i])
			begin = i
		}
		until = max(until, h.end)
	}
	return append(parts, holds[begin:])
}

// step is an operation of the model: a hold begins, or ends.
type step struct {
	hold int
	ends bool
}

// operations are those of some holds of one key. A hold that was released has ended somewhere
// between the beginning and the end of its release; one that did not end has no
// operation that says so.
func operations(holds []*hold) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(holds))
	for i, h := range holds {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: step{hold: i}, Call: h.asked, Return: h.at})
		if h.how == believes {
			continue
		}
		to := h.end
		switch {
		case h.how == gaveBack && h.released != nil:
			to = max(to, h.released.At)
		case h.how == wasTold:
			to = max(to, h.lost.At)
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: step{hold: i, ends: true}, Call: h.end, Return: to})
	}
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}

// mutexModel is a lock that knows who may be in beside whom. Its state names the
// holds that are in.
func mutexModel(holds []*hold) porcupine.Model {
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
				if i, err := strconv.Atoi(other); err != nil || holds[i].conflicts(holds[s.hold]) {
					return false, state
				}
			}
			return !was, strings.Join(slices.Insert(inside, place, name), " ")
		},
	}
}
