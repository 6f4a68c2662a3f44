// Package judge finds out what went wrong with a lock, from the recorded events and from what
// the stores hold: which anomalies there were, and how many of each kind. Package witness
// draws their proofs.
//
// The judge does not know what a mechanism promises. [Judge] takes [Evidence] and compares who
// believed to hold a key when, what the lock store held meanwhile, and what the database holds
// at the end. It counts only what is certain. All times come from one clock, but an operation
// happened at some time between its beginning and its end. So one operation counts as earlier
// than another only if it ended before the other began.
package judge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// Judge counts the anomalies that the evidence shows.
func Judge(ev Evidence) Judgement {
	j := Look(ev)
	if h := j.History; slices.ContainsFunc(h.Holds, func(one *Hold) bool { return !one.Unlocked }) {
		verdict, judged := h.mutex()
		j.Measures = append(j.Measures, finding.Measure{
			Name: verdictOfMutex(verdict), Value: float64(judged), Unit: i18n.F("grants and releases"),
		})
	}
	return j
}

// verdictOfMutex says what porcupine found.
func verdictOfMutex(found porcupine.CheckResult) i18n.Text {
	switch found {
	case porcupine.Ok:
		return i18n.F("porcupine, a checker of histories, finds what a mutual exclusion allows in")
	case porcupine.Illegal:
		return i18n.F("porcupine, a checker of histories, finds what no mutual exclusion allows in")
	}
	return i18n.F("porcupine, a checker of histories, came to no result in its time, of")
}

// Look counts the same anomalies and leaves out what takes long: porcupine's result.
func Look(ev Evidence) Judgement {
	h := NewHistory(ev)
	found := h.find()
	return Judgement{Anomalies: found.counts(h), History: h, Incidents: found}
}

// Judgement is the result of [Judge].
type Judgement struct {
	// Anomalies counts each kind. A kind that was checked and not found is present with
	// 0; a kind that the evidence says nothing about is absent.
	Anomalies map[finding.Kind]int
	// Measures are further numbers: porcupine's result for the lock's history.
	Measures []finding.Measure
	// History and Incidents are what a witness is drawn from.
	History   *History
	Incidents Incidents
}

// Incidents are the anomalies that were found, each with the holds, transactions or entries that prove it.
type Incidents struct {
	Overlaps    []Overlap
	StaleWrites []StaleWrite
	LostUpdates []LostUpdate
	LostOrders  []Ack
	LockedOut   []LockedOut
	StuckKeys   []StuckKey
}

func (h *History) find() Incidents {
	return Incidents{
		Overlaps: h.overlaps(), StaleWrites: h.staleWrites(), LostUpdates: h.lostUpdates(), LostOrders: h.lostOrders(),
		LockedOut: h.lockedOut(), StuckKeys: h.stuckKeys(),
	}
}

// counts leaves out the kinds that the evidence says nothing about.
func (f Incidents) counts(h *History) map[finding.Kind]int {
	n := map[finding.Kind]int{}
	if h.Audit != nil {
		n[finding.Oversold] = int(h.Audit.Oversold())
		n[finding.DuplicateOrders] = int(h.Audit.DuplicateOrders())
	}
	if h.Audit != nil && h.Refused != nil {
		n[finding.Undersold] = h.undersold()
	}
	if h.Rows != nil {
		n[finding.LostOrders] = len(f.LostOrders)
	}
	if h.Books != nil {
		n[finding.PaidForNothing] = h.Books.paidForNothing()
		n[finding.GivenAway] = h.Books.givenAway()
		n[finding.NeverReturned] = h.Books.neverReturned()
	}
	if h.Books != nil && h.Audit != nil {
		n[finding.ReturnedTwice] = returnedTwice(*h.Audit)
	}
	if len(h.Transactions) > 0 {
		n[finding.LostUpdates] = len(f.LostUpdates)
		n[finding.StaleWrites] = len(f.StaleWrites)
	}
	if len(h.Holds) > 0 {
		n[finding.Overlaps] = len(f.Overlaps)
		n[finding.WrongReleases] = len(h.WrongReleases)
	}
	if len(h.Store) > 0 {
		n[finding.StuckKeys] = len(f.StuckKeys)
	}
	if len(h.Refusals) > 0 || len(h.Store) > 0 {
		n[finding.LockedOut] = len(f.LockedOut)
	}
	return n
}

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
