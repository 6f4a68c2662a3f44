package experiments

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
)

// hasReaders says whether the mechanism distinguishes readers. Under one that does not,
// readers acquire like everybody else.
func (c *clients) hasReaders() bool {
	_, sides := c.Inspector(c.setup.Policy.Lock).(interface{ Reader() lock.Locker })
	return sides
}

// readTogether lets readers ask at the same moment. Each one stays until all have the lock, so
// a reader that is let in never has to wait for another one to leave.
func readTogether(t *lab.Trial, setup lab.Setup) {
	readers := cmp.Or(setup.Buyers, readerCount)
	c := newClients(t, setup)
	processes := []*lockclient.Client{c.start("process-1"), c.start("process-2")}
	for _, process := range processes {
		c.warmUp(process)
	}
	c.observe()
	var in atomic.Int64
	all := make(chan struct{})
	read := func() {
		if in.Add(1) == int64(readers) {
			close(all)
		}
		alone := time.NewTimer(readAloneLimit)
		defer alone.Stop()
		select {
		case <-all:
		case <-alone.C:
		case <-t.Context().Done():
		}
		t.Sleep(readTogetherTime)
	}
	var left []func()
	for i := range readers {
		left = append(left, t.Go(func() {
			req := c.request(fmt.Sprintf("reader %d", i+1))
			req.Shared = c.hasReaders()
			g, err := processes[i%len(processes)].Acquire(t.Context(), req)
			c.Must(err)
			read()
			c.release(processes[i%len(processes)], g.Lease)
		}))
	}
	for _, wait := range left {
		wait()
	}

	evidence := c.evidence()
	evidence.Shared = true
	done := readings(evidence.Events)
	t.Measure(i18n.F("readers at once"), float64(concurrentReaders(done)), i18n.Text{})
	needless := behindReaders(done)
	t.Found(finding.NeedlessWaits, len(needless))
	last, gone := done[readers-1].at, done[readers-1].left
	story := witness.Story{Key: c.key, From: done[0].asked, To: gone}
	for _, r := range done {
		story.Who = append(story.Who, r.who)
	}
	story.Summary = i18n.F("All %d readers ask at once, and at %s all of them are in.", readers, witness.At(last))
	if len(needless) > 0 {
		story.Kind = finding.NeedlessWaits
		story.Summary = i18n.F("All %d readers ask at once, and are let in one by one, each when the one before has gone: the last one at %s.", readers, witness.At(last))
		for _, r := range needless {
			story.Wrong = append(story.Wrong, witness.Wrong{Who: r.who, Span: finding.Waits})
		}
	}
	t.Witness(witness.Tell(withReadersNamed(evidence), story))
	t.Judge(evidence)
}

// reading is one acquisition of a reader.
type reading struct {
	who             string
	asked, at, left int64
}

// readings returns those of all readers, in the order in which they were granted. For one that
// is not over, left is 0.
func readings(events []eventlog.Event) []reading {
	var all []reading
	open := map[string]int{} // by owner
	for _, e := range sorted(events) {
		switch {
		case !strings.HasPrefix(e.Who, "reader"):
		case e.Kind == eventlog.Acquired:
			open[e.Owner] = len(all)
			all = append(all, reading{who: e.Who, asked: e.Began, at: e.At})
		case e.Kind == eventlog.Releasing:
			if i, ok := open[e.Owner]; ok {
				all[i].left = e.At
			}
		}
	}
	return all
}

// behindReaders returns the readers that got the lock only after a reader had left that held
// it when they asked.
func behindReaders(reads []reading) []reading {
	var found []reading
	for _, r := range reads {
		for _, other := range reads {
			if other.at < r.at && other.left != 0 && r.asked < other.left && other.left < r.at {
				found = append(found, r)
				break
			}
		}
	}
	return found
}

// concurrentReaders is the greatest number of readers that held the lock at the same time.
func concurrentReaders(reads []reading) int {
	most := 0
	for _, r := range reads {
		n := 0
		for _, other := range reads {
			if other.at <= r.at && (other.left == 0 || other.left > r.at) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// writerAmongReaders lets a writer come while readers come and go.
func writerAmongReaders(t *lab.Trial, setup lab.Setup) {
	const writer = "writer"
	c := newClients(t, setup)
	processes := []*lockclient.Client{c.start("process-1"), c.start("process-2")}
	third := c.start("process-3")
	c.warmUp(third)
	c.observe()
	var closed atomic.Bool
	var over []func()
	for _, process := range processes {
		for n := range readersEach {
			over = append(over, t.Go(func() { c.comeAndGo(process, fmt.Sprintf("reader %d", n+1), &closed) }))
		}
		c.awaitReaders(process, 1)
		t.Sleep(readTime / 2) // the others rest at different times
	}
	for _, process := range processes {
		c.awaitReaders(process, readersBefore)
	}
	g, queued := c.acquireQueued(third, c.request(writer))
	t.Sleep(writeTime)
	c.release(third, g.Lease)
	t.Sleep(2 * readTime) // the waiting readers come in
	closed.Store(true)
	for _, wait := range over {
		wait()
	}

	evidence := c.evidence()
	evidence.Shared = true
	for i := range evidence.Events { // they are readers even under a lock that does not distinguish them
		evidence.Events[i].Shared = strings.HasPrefix(evidence.Events[i].Who, "reader")
	}
	all := readings(evidence.Events)
	before := letInBefore(all, cmp.Or(queued, g.Asked), g.At)
	t.Found(finding.Starved, starvedWriters(before))
	t.Measure(i18n.F("readers at once"), float64(concurrentReaders(all)), i18n.Text{})
	t.Measure(i18n.F("the writer waited"), millis(g.Waited()), i18n.F("ms"))
	t.Measure(i18n.F("readers let in that came after the writer"), float64(before), i18n.Text{})
	if judge.Judge(evidence).Anomalies[finding.Overlaps] == 0 {
		c.drawTurns(evidence, all, g)
	}
	t.Judge(evidence)
}

// comeAndGo has a reader read again and again.
func (c *clients) comeAndGo(process *lockclient.Client, who string, closed *atomic.Bool) {
	req := c.request(who)
	req.Shared = c.hasReaders()
	for !closed.Load() {
		g := c.take(process, req)
		c.Sleep(readTime)
		c.release(process, g.Lease)
		c.Sleep(restTime)
	}
}

// acquireQueued acquires a lock, and also returns the time at which the store first showed a waiting request; 0 if
// it showed none. On a busy machine, a client may send its request long after it has begun to acquire.
func (c *clients) acquireQueued(client *lockclient.Client, req lockclient.Acquire) (g lockclient.Grant, queued int64) {
	var answered atomic.Bool
	asks := c.Go(func() {
		defer answered.Store(true)
		g = c.take(client, req)
	})
	if inspector := c.Inspector(req.Lock); inspector != nil {
		c.Until("the request waits or has an answer", func() bool {
			if state, err := inspector.Inspect(c.Context(), req.Key); err == nil && state.Waiting > 0 {
				queued = time.Now().UnixNano()
			}
			return queued != 0 || answered.Load()
		})
	}
	asks()
	return g, queued
}

// letInBefore counts the readers that asked after the writer and got in before it.
func letInBefore(all []reading, asked, at int64) int {
	n := 0
	for _, r := range all {
		if r.asked > asked && r.at < at {
			n++
		}
	}
	return n
}

// starvedWriters is 1 if so many later readers were let in before the writer that they took
// its turn.
func starvedWriters(before int) int {
	if before > laterReaders {
		return 1
	}
	return 0
}

// drawTurns draws the readers before the writer, the writer, and those after it.
func (c *clients) drawTurns(evidence judge.Evidence, all []reading, writer lockclient.Grant) {
	left := writer.At + int64(writeTime)
	story := witness.Story{Key: c.key, Who: []string{"writer"}, From: writer.Asked - int64(readTime), To: left + int64(readTime)}
	waiting := 0
	for _, r := range all {
		if !slices.Contains(story.Who, r.who) {
			story.Who = append(story.Who, r.who)
		}
		if r.asked < left && r.at > left {
			waiting++
		}
	}
	story.Summary = i18n.F("The writer waits from %s on and is alone from %s on. When it leaves, the %d readers that are waiting come in together.",
		witness.At(writer.Asked), witness.At(writer.At), waiting)
	c.Witness(witness.Tell(withReadersNamed(evidence), story))
}

// withReadersNamed is the evidence for a picture in which the store holds "readers", whichever
// of the readers that share the lock it names.
func withReadersNamed(evidence judge.Evidence) judge.Evidence {
	shared := map[string]bool{}
	for _, e := range evidence.Events {
		if e.Kind == eventlog.Acquired && e.Shared {
			shared[e.Owner] = true
		}
	}
	evidence.Samples = slices.Clone(evidence.Samples)
	for i := range evidence.Samples {
		if stored := &evidence.Samples[i].Stored; shared[stored.Owner] {
			stored.Owner = "readers"
		}
	}
	return evidence
}

// awaitReaders waits until a process has let n readers in.
func (c *clients) awaitReaders(process *lockclient.Client, n int) {
	c.Until("readers to come and go in "+process.Name(), func() bool { return len(readings(process.Events())) >= n })
}
