package judge

import (
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// Judge counts the anomalies that the evidence shows.
func Judge(ev Evidence) Judgement {
	j := Look(ev)
	if h := j.History; len(h.Holds) > 0 {
		verdict, judged := h.mutex()
		j.Measures = append(j.Measures, finding.Measure{
			Name: i18n.F("porcupine: %s", strings.ToLower(string(verdict))), Value: float64(judged), Unit: i18n.F("operations"),
		})
	}
	return j
}

// Look counts the same anomalies and leaves out what takes long: porcupine's result.
func Look(ev Evidence) Judgement {
	h := NewHistory(ev)
	found := h.find()
	return Judgement{Anomalies: found.counts(h), History: h, Findings: found}
}

// Judgement is the result of [Judge].
type Judgement struct {
	// Anomalies counts each kind. A kind that was checked and not found is present with
	// 0; a kind that the evidence says nothing about is absent.
	Anomalies map[finding.Kind]int
	// Measures are further numbers: porcupine's result for the lock's history.
	Measures []finding.Measure
	// History and Findings are what a witness is drawn from.
	History  *History
	Findings Findings
}

// Findings are all anomalies that were found.
type Findings struct {
	Overlaps    []Overlap
	StaleWrites []StaleWrite
	LostUpdates []LostUpdate
	LostOrders  []Ack
	LockedOut   []LockedOut
	StuckKeys   []StuckKey
}

func (h *History) find() Findings {
	return Findings{
		Overlaps: h.overlaps(), StaleWrites: h.staleWrites(), LostUpdates: h.lostUpdates(), LostOrders: h.lostOrders(),
		LockedOut: h.lockedOut(), StuckKeys: h.stuckKeys(),
	}
}

// counts leaves out the kinds that the evidence says nothing about.
func (f Findings) counts(h *History) map[finding.Kind]int {
	n := map[finding.Kind]int{}
	if h.Audit != nil {
		n[finding.Oversold] = int(h.Audit.Oversold())
		n[finding.DuplicateOrders] = int(h.Audit.DuplicateOrders())
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
