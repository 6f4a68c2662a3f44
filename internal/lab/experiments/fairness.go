package experiments

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
)

// fairness are the experiments about the order in which waiters are served.
func fairness() []comparison {
	needs := []testbed.Server{testbed.Redis}
	waiting := func(mechanism string) lab.Setup {
		return lab.Setup{Policy: policyFor(mechanism, 20*time.Second, 20*time.Second)}
	}
	reading := func(mechanism string) lab.Setup { return lab.Setup{Policy: policyFor(mechanism, 0, 10*time.Second)} }
	return []comparison{
		{text: "fairness", scenario: waitersArrive, needs: needs, quiet: true, cases: []setupCase{
			{id: "unfair-order", setup: waiting("lua"), breaks: kinds{finding.Inversions, finding.Starved}},
			{id: "fair-order", setup: waiting("fair"), holds: kinds{finding.Inversions, finding.Starved, finding.Overlaps}},
		}, parameters: []lab.Parameter{
			locks("naive", "uuid", "lua", "fair"), buyers(waiterCount, 4, 30),
			work(i18n.F("how long each holds the lock"), holdTime, 10*time.Millisecond, 500*time.Millisecond),
		}},
		{text: "readers", scenario: readTogether, needs: needs, quiet: true, cases: []setupCase{
			{id: "readers-take-turns", setup: reading("reentrant"), breaks: kinds{finding.NeedlessWaits}},
			{id: "rw-readers-together", setup: reading("rw"), holds: kinds{finding.NeedlessWaits}},
		}, parameters: []lab.Parameter{buyers(readerCount, 2, 10)}},
		{text: "readers-and-writer", scenario: writerAmongReaders, needs: needs, quiet: true, cases: []setupCase{
			{id: "readers-writer-no-lock", setup: reading("none"), breaks: kinds{finding.Overlaps}},
			{id: "rw-writer-alone", setup: reading("rw"), holds: kinds{finding.Overlaps, finding.Starved}},
		}},
	}
}

// Ten waiters come one after the other, and each holds the lock for a while. The sale closes
// while some still wait.
const (
	waiterCount     = 10
	holdTime        = 60 * time.Millisecond
	arrivalInterval = 30 * time.Millisecond
	saleTime        = 420 * time.Millisecond // after the lock was released
)

// readerCount readers ask at once.
const readerCount = 4

// A reader reads until all of them do, or for readAloneLimit: a reader that is let in never
// has to wait for the others to leave.
const (
	readAloneLimit   = 500 * time.Millisecond
	readTogetherTime = 50 * time.Millisecond
)

// Readers come and go in two processes so that one of them always holds the lock. A writer
// comes after some rounds.
const (
	readersEach   = 3 // in each process
	readTime      = 80 * time.Millisecond
	restTime      = 10 * time.Millisecond
	readersBefore = 4 // in each process
	writeTime     = 200 * time.Millisecond
	// laterReaders is how many readers that asked after the writer may be let in before it:
	// one round of readers.
	laterReaders = 2 * readersEach
)

// visit is one waiter and its result.
type visit struct {
	who       string
	asked, at int64 // at: when it was served, or left
	served    bool
}

// waitersArrive starts waiters while the lock is held, each when the one before has its place
// in the queue, and then releases the lock.
func waitersArrive(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	processes := []*lockclient.Client{c.start("process-1"), c.start("process-2")}
	c.observe()
	first, err := processes[0].Acquire(t.Context(), c.request("holder"))
	c.Must(err)

	visits := make([]visit, cmp.Or(setup.Buyers, waiterCount))
	open, closeDoors := context.WithCancel(t.Context())
	defer closeDoors()
	var left []func()
	for i := range visits {
		v, process := &visits[i], processes[i%len(processes)]
		v.who = fmt.Sprintf("buyer %d", i+1)
		left = append(left, t.Go(func() { c.visit(open, process, v) }))
		v.asked = c.await(v.who+" to ask", requestedBy(v.who)).At
		c.awaitWaiting(i + 1)
		t.Sleep(arrivalInterval)
	}
	c.release(processes[0], first.Lease)
	t.Sleep(saleTime)
	closed := time.Now().UnixNano()
	closeDoors()
	for _, wait := range left {
		wait()
	}

	evidence := c.evidence()
	wrong := overtakings(visits, closed)
	t.Found(finding.Inversions, len(wrong))
	starved := map[*visit]bool{}
	for _, o := range wrong {
		if !o.early.served {
			starved[o.early] = true
		}
	}
	t.Found(finding.Starved, len(starved))
	served := 0
	for _, v := range visits {
		if v.served {
			served++
		}
	}
	t.Measure(i18n.F("served"), float64(served), i18n.F("of %d", len(visits)))
	t.Measure(i18n.F("the longest wait of one who was served"), millis(longestWait(visits)), i18n.F("ms"))
	c.drawOrder(evidence, visits, wrong)
	t.Judge(evidence)
}

// visit waits for the lock while the sale is open, holds it for a while and releases it.
func (c *clients) visit(open context.Context, process *lockclient.Client, v *visit) {
	g, err := process.Acquire(open, c.request(v.who))
	if v.at = g.At; err != nil && open.Err() != nil && c.Context().Err() == nil {
		v.at = time.Now().UnixNano()
		return
	}
	c.Must(err)
	v.served = true
	c.Sleep(cmp.Or(c.setup.Work, holdTime))
	c.release(process, g.Lease)
}

// awaitWaiting waits until the store knows n waiters. Without a queue in the store there is
// nothing to wait for.
func (c *clients) awaitWaiting(n int) {
	store := c.Inspector(c.setup.Policy.Lock)
	c.Until(fmt.Sprintf("%d in line", n), func() bool {
		state, err := store.Inspect(c.Context(), c.key)
		c.Must(err)
		return state.Waiting == lock.WaitingUnknown || state.Waiting >= n
	})
}

// overtaking is a pair of waiters: the later one was served while the earlier one waited.
type overtaking struct {
	early, late *visit
}

// overtakings returns all of them. The waiters arrive well apart, so their order is certain. A
// waiter that is served while the sale closes was served by chance, and overtakes nobody.
func overtakings(visits []visit, closed int64) []overtaking {
	var found []overtaking
	for i := range visits {
		early := &visits[i]
		for j := range visits[i+1:] {
			late := &visits[i+1+j]
			if late.served && late.at < min(early.at, closed) {
				found = append(found, overtaking{early, late})
			}
		}
	}
	return found
}

func longestWait(visits []visit) (longest time.Duration) {
	for _, v := range visits {
		if v.served {
			longest = max(longest, time.Duration(v.at-v.asked))
		}
	}
	return longest
}

// drawOrder draws who overtook whom, or the waiters that were served in order.
func (c *clients) drawOrder(evidence judge.Evidence, visits []visit, wrong []overtaking) {
	if len(wrong) == 0 {
		const shown = 4
		story := witness.Story{Key: c.key, From: visits[0].asked, To: visits[0].asked}
		for _, v := range visits[:shown] {
			story.Who, story.To = append(story.Who, v.who), max(story.To, v.at)
		}
		served := 0
		for _, v := range visits {
			if v.served {
				served++
			}
		}
		story.Summary = i18n.F("%d buyers come, one after the other. %d of them get the lock, in that order: here are the first %d.", len(visits), served, shown)
		c.Witness(witness.Tell(evidence, story))
		return
	}
	gap := func(o overtaking) int64 { return o.late.asked - o.early.asked }
	worst := func(served bool) (overtaking, bool) {
		of := slices.DeleteFunc(slices.Clone(wrong), func(o overtaking) bool { return o.early.served != served })
		if len(of) == 0 {
			return overtaking{}, false
		}
		return slices.MaxFunc(of, func(a, b overtaking) int { return int(gap(a) - gap(b)) }), true
	}
	if o, ok := worst(true); ok {
		c.Witness(c.drawOvertaking(evidence, finding.Inversions, o))
	} else if o, ok := worst(false); ok {
		c.Witness(c.drawOvertaking(evidence, finding.Inversions, o))
	}
	if o, ok := worst(false); ok {
		c.Witness(c.drawOvertaking(evidence, finding.Starved, o))
	}
}

func (c *clients) drawOvertaking(evidence judge.Evidence, kind finding.Kind, o overtaking) finding.Witness {
	early, late := o.early, o.late
	end := i18n.F("has to leave with nothing")
	if early.served {
		end = i18n.F("is served")
	}
	return witness.Tell(evidence, witness.Story{
		Kind: kind, Key: c.key, Who: []string{early.who, late.who}, From: early.asked, To: early.at,
		Wrong: []witness.Wrong{{Who: early.who, Span: finding.Waits, Mark: finding.Refuses}},
		Summary: i18n.F("%s comes at %s and %s at %s; %s is served at %s, and %s %s at %s.", i18n.Name(early.who), witness.At(early.asked),
			i18n.Name(late.who), witness.At(late.asked), i18n.Name(late.who), witness.At(late.at), i18n.Name(early.who), end, witness.At(early.at)),
	})
}
