package witness

import (
	"cmp"
	"math"
	"slices"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
)

// Live draws a history that goes on: at most so many actors, from the beginning up to now. Those of an earlier picture
// keep their lanes; then come the latest. The axis goes further than now, to a round time, so that the picture grows
// along it. It returns the actors in the order of their lanes, and false if there is nothing to show yet.
func Live(j judge.Judgement, most int, earlier []judge.Actor) (w finding.Witness, actors []judge.Actor, ok bool) {
	h := &history{History: j.History}
	key := h.busiestKey()
	in, begun := h.latest(key, most, earlier)
	if begun == judge.Never {
		return finding.Witness{}, earlier, false
	}
	d := h.draw("", key, begun, h.End, in)
	if len(d.participants) == 0 {
		return finding.Witness{}, earlier, false
	}
	slices.SortStableFunc(d.participants, func(a, b *participant) int {
		return cmp.Compare(uint(slices.Index(earlier, a.by)), uint(slices.Index(earlier, b.by))) // a new one comes last
	})
	for _, p := range d.participants {
		actors = append(actors, p.by)
	}
	d.from, d.to = begun, h.End
	d.showOrders = key == ""
	d.markFound(j.Incidents)
	w = d.witness(i18n.Text{})
	w.Until = roundUp(milli(d.to - d.Begin))
	return w, actors, true
}

// busiestKey is the key that most holds and refusals are about; "" if there is none.
func (h *history) busiestKey() string {
	n := map[string]int{}
	for _, one := range h.Holds {
		n[one.Key]++
	}
	for _, e := range slices.Concat(h.Refusals, h.Pending) {
		n[e.Key]++
	}
	for key := range h.Store { // what is observed is what the experiment is about
		n[key] += len(h.Events)
	}
	busiest := ""
	for key := range n {
		if c := cmp.Compare(n[key], n[busiest]); c > 0 || c == 0 && key < busiest {
			busiest = key
		}
	}
	return busiest
}

// latest returns earlier actors and those that have done something last, and when the first of them began. Those that
// got in come before those that wait.
func (h *history) latest(key string, most int, earlier []judge.Actor) (in subjects, begun int64) {
	type activity struct {
		by    judge.Actor
		last  int64
		inner bool
	}
	var all []*activity
	of := map[judge.Actor]*activity{}
	note := func(by judge.Actor, at int64, inner bool) {
		if of[by] == nil {
			of[by] = &activity{by: by}
			all = append(all, of[by])
		}
		of[by].last, of[by].inner = max(of[by].last, at), of[by].inner || inner
	}
	for _, one := range h.HoldsOf[key] {
		note(one.By, min(one.End, h.End), true)
	}
	for _, s := range h.Transactions {
		if s.Write != nil || s.Read != nil || s.Checked != nil {
			note(s.By, min(s.EndedAt(), h.End), true)
		}
	}
	for _, e := range slices.Concat(h.Refusals, h.Pending) {
		if e.Key == key {
			note(judge.ActorOf(e), e.At, false)
		}
	}
	for _, u := range h.Unanswered {
		if u.Request.Key == key {
			note(judge.ActorOf(u.Request), u.Died, false)
		}
	}
	slices.SortStableFunc(all, func(a, b *activity) int {
		if before, other := slices.Contains(earlier, a.by), slices.Contains(earlier, b.by); before != other {
			return map[bool]int{true: -1, false: 1}[before]
		}
		if a.inner != b.inner {
			return map[bool]int{true: -1, false: 1}[a.inner]
		}
		return cmp.Compare(b.last, a.last)
	})
	shown := map[judge.Actor]bool{}
	for _, a := range all[:min(most, len(all))] {
		shown[a.by] = true
	}
	return h.subjectsOf(key, shown)
}

func (h *history) subjectsOf(key string, shown map[judge.Actor]bool) (in subjects, begun int64) {
	begun = judge.Never
	for _, one := range h.HoldsOf[key] {
		if shown[one.By] {
			in.holds, begun = append(in.holds, one), min(begun, one.Began)
		}
	}
	for _, s := range h.Transactions {
		if shown[s.By] {
			in.transactions, begun = append(in.transactions, s), min(begun, s.Began)
		}
	}
	for _, e := range slices.Concat(h.Refusals, h.Pending) {
		if e.Key == key && shown[judge.ActorOf(e)] {
			in.refusals, begun = append(in.refusals, e), min(begun, cmp.Or(e.Began, e.At))
		}
	}
	for _, u := range h.Unanswered {
		if u.Request.Key == key && shown[judge.ActorOf(u.Request)] {
			in.unanswered, begun = append(in.unanswered, u), min(begun, u.Request.At)
		}
	}
	return in, begun
}

// markFound marks what has gone wrong so far.
func (d *drawing) markFound(found judge.Incidents) {
	for _, o := range found.Overlaps {
		d.wrong[o.Later], d.outlived[o.Earlier] = true, true
	}
	for _, s := range found.StaleWrites {
		d.wrong[s.Late] = true
	}
	for _, l := range found.LostUpdates {
		d.wrong[l.By] = true
	}
	for _, w := range d.WrongReleases {
		d.wrong[w.Releaser.Releasing] = true
	}
	for _, s := range found.StuckKeys {
		d.wrong[s.Entry] = true
	}
	for _, l := range found.LockedOut {
		d.wrong[l.Refused] = true
	}
}

// roundUp is the next round time that leaves some air, from half a second on.
func roundUp(ms float64) float64 {
	for unit := 500.0; ; unit *= 10 {
		for _, factor := range []float64{1, 2, 4, 6, 10, 15} {
			if at := unit * factor; at >= ms*1.05 {
				return math.Round(at)
			}
		}
	}
}
