package explore

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
)

// Violation is something that went wrong, and after how many steps that was certain.
type Violation struct {
	Kind finding.Kind `json:"kind"`
	Step int          `json:"step"`
}

// stretch is how long a step takes in the history that is judged and drawn. In the run it takes no time, but the judge
// tells what was earlier by the clock.
const stretch = 100 * time.Millisecond

// logical translates a moment of the run to one of the history: the virtual time, and a stretch for each step.
func (b *bed) logical(at time.Duration, step int) int64 {
	return int64(at) + int64(step)*int64(stretch)
}

// later translates a moment that comes after a step, such as the end of a lease.
func (b *bed) later(at time.Duration) int64 {
	n := sort.Search(len(b.steps), func(i int) bool { return b.steps[i].at >= at })
	return b.logical(at, n)
}

// stepAt is the step of a moment of the history.
func (b *bed) stepAt(logical int64) int {
	return sort.Search(len(b.steps), func(i int) bool { return b.logical(b.steps[i].at, i+1) > logical })
}

// evidence is the run as the judge wants it.
func (b *bed) evidence() judge.Evidence {
	_, shared := b.watcher.(readWrite)
	ev := judge.Evidence{LockStore: "Redis", Database: "database", Shared: shared}
	at := func(step int) time.Duration {
		if step == 0 {
			return 0
		}
		return b.steps[step-1].at
	}
	moments := make([]int64, len(b.steps)+1)
	for i := range moments {
		moments[i] = b.logical(at(i), i)
	}
	n, last := 0, -1
	began := b.began.UnixNano()
	b.mu.Lock()
	events := slices.Clone(b.events)
	b.mu.Unlock()
	for _, e := range events {
		if e.step != last {
			n, last = 0, e.step
		}
		n++
		one := e.Event
		one.At = moments[e.step] + int64(n)*int64(time.Millisecond)
		if e.Began != 0 {
			one.Began = b.later(time.Duration(e.Began - began))
			for _, before := range events { // the event that began it says which step that was
				if before.Process == e.Process && before.At == e.Began && (before.Kind == eventlog.Acquiring || before.Kind == eventlog.Releasing) && before.step <= e.step {
					one.Began = moments[before.step]
				}
			}
		}
		if e.LeftMS != nil {
			end := b.later(time.Duration(e.At-began) + time.Duration(judge.Nanos(*e.LeftMS)))
			one.LeftMS = new(float64(end-one.At) / 1e6)
		}
		ev.Events = append(ev.Events, one)
	}
	for _, s := range b.samples {
		step := int(s.At)
		s.At = moments[step] + int64(stretch/2)
		if s.Stored.TTLMS != nil {
			end := b.later(at(step) + time.Duration(judge.Nanos(*s.Stored.TTLMS)))
			s.Stored.TTLMS = new(float64(end-s.At) / 1e6)
		}
		ev.Samples = append(ev.Samples, s)
	}
	b.addFaults(&ev, moments)
	ev.End = moments[len(b.steps)] + int64(stretch)
	return ev
}

// addFaults adds what failed. moments are those of the history, by step.
func (b *bed) addFaults(ev *judge.Evidence, moments []int64) {
	until := func(step int) int64 {
		if step == 0 {
			return 0
		}
		return moments[step]
	}
	for _, d := range b.deaths {
		ev.Deaths = append(ev.Deaths, judge.Death{Process: d.proc.label, At: moments[d.from]})
	}
	for _, p := range b.pauses {
		ev.Pauses = append(ev.Pauses, judge.Pause{Process: p.proc.label, From: moments[p.from], To: until(p.to)})
	}
	for _, f := range b.faults {
		one := judge.Fault{From: moments[f.step], To: moments[f.step], What: faultText(f.what)}
		if f.what.Action == Cut {
			one.Process = b.procs[f.what.On-1].label
		}
		ev.Faults = append(ev.Faults, one)
	}
}

// violations returns what the judge and the run itself have found, one of each kind: the earliest.
func (b *bed) violations() []Violation {
	j := judge.Look(b.evidence())
	all := slices.Clone(b.found)
	add := func(kind finding.Kind, at int64) {
		all = append(all, Violation{kind, b.stepAt(at)})
	}
	for _, o := range j.Incidents.Overlaps {
		add(finding.Overlaps, o.Later.At)
	}
	for _, w := range j.History.WrongReleases {
		add(finding.WrongReleases, w.GoneBy)
	}
	for _, w := range j.Incidents.StaleWrites {
		add(finding.StaleWrites, w.Late.EndedAt())
	}
	for _, w := range j.Incidents.LostUpdates {
		add(finding.LostUpdates, w.By.EndedAt())
	}
	for _, s := range j.Incidents.StuckKeys {
		if step := b.goneSince(s); step > 0 {
			all = append(all, Violation{finding.StuckKeys, step})
		}
	}
	slices.SortStableFunc(all, func(x, y Violation) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Step, y.Step)) })
	return slices.CompactFunc(all, func(x, y Violation) bool { return x.Kind == y.Kind })
}

// goneSince is the step from which on nobody will free a stuck key, because its holder has died or is done; 0: it may
// still be freed. A run that ends early says nothing.
func (b *bed) goneSince(s judge.StuckKey) int {
	for _, d := range b.deaths {
		if s.Holder == nil || s.Holder.By.Process == d.proc.label {
			return d.from
		}
	}
	return 0
}

// The kinds that the laboratory's judge has no word for.
const (
	// ToldLate is a holder whose lease has ended, that a watchdog should have told, and that was not told.
	ToldLate finding.Kind = "told_late"
)

// Title is a kind in words.
func Title(kind finding.Kind) string {
	if kind == ToldLate {
		return "told too late"
	}
	for _, one := range finding.Kinds() {
		if one.Kind == kind {
			return strings.ToLower(one.Title)
		}
	}
	return string(kind)
}

// look notes what can be seen only while the run goes on.
func (b *bed) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	note := func(kind finding.Kind) { b.found = append(b.found, Violation{kind, len(b.steps)}) }
	for _, p := range b.procs {
		if p.held != nil && !p.paused && !p.dead && b.mechanism.Ends == lock.EndsUnlessRenewed && p.held.Remaining() <= 0 && p.held.Context().Err() == nil {
			note(ToldLate)
		}
	}
	if b.keptOut() {
		note(finding.LockedOut)
	}
	// Time went on while the lock was free and somebody waited for it.
	now := b.steps[len(b.steps)-1]
	if now.Action == Time && b.unwoken && now.at-b.lastAt > slack {
		note(finding.NeedlessWaits)
	}
	b.lastAt = now.at
	b.unwoken = b.mechanism.Passing == lock.PassingTold && b.spent[Cutting]+b.spent[Killing]+b.spent[Restarting]+b.spent[Jumping] == 0 && b.owner() == "" &&
		slices.ContainsFunc(b.procs, func(p *process) bool {
			return p.started && !p.finished && !p.paused && p.held == nil && len(p.waiting()) == 0
		}) && !slices.ContainsFunc(b.procs, func(p *process) bool { return len(p.waiting()) > 0 })
}

// keptOut reports whether somebody waits for a lock whose holder has released it, and is done.
func (b *bed) keptOut() bool {
	if !slices.ContainsFunc(b.procs, (*process).atWork) {
		return false
	}
	owner := b.owner()
	return slices.ContainsFunc(b.procs, func(p *process) bool { return p.finished && !p.dead && p.answered && owner == p.name() })
}

// slack is how long a waiter may need to notice that a lease has ended.
const slack = 100 * time.Millisecond

// owner returns the owner that the servers store for the lock. "" means that the lock is free.
func (b *bed) owner() string {
	for _, s := range slices.Backward(b.samples) {
		if s.Server == "" {
			return s.Stored.Owner
		}
	}
	return ""
}

func faultText(s Step) i18n.Text {
	switch s.Action {
	case Cut:
		return i18n.F("a connection breaks")
	case Restart:
		return i18n.F("node %s restarts empty", i18n.Plain(strconv.Itoa(s.On)))
	}
	return i18n.F("the clock of node %s jumps", i18n.Plain(strconv.Itoa(s.On)))
}
