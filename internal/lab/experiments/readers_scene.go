package experiments

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/trace"
)

// shares says whether the mechanism knows readers. Under one that does not they come as
// everybody does.
func (c *company) shares() bool {
	_, sides := c.Inspector(c.with.Policy.Lock).(interface{ Reader() lock.Locker })
	return sides
}

// readTogether has readers ask at the same moment. Each stays until all are in, so that
// nobody who is let in has to wait for another to go.
func readTogether(p *lab.Play, with lab.Setup) {
	const readers = 4
	c := gather(p, with)
	shops := []*actor.Actor{c.hire("shop-1"), c.hire("shop-2")}
	for _, shop := range shops {
		c.warm(shop)
	}
	c.observe()
	var in atomic.Int64
	all := make(chan struct{})
	read := func() {
		if in.Add(1) == readers {
			close(all)
		}
		alone := time.NewTimer(readAlone)
		defer alone.Stop()
		select {
		case <-all:
		case <-alone.C:
		case <-p.Context().Done():
		}
		p.Pause(readOn)
	}
	var left []func()
	for i := range readers {
		left = append(left, p.Go(func() {
			asks := c.ask(fmt.Sprintf("reader %d", i+1))
			asks.Shared = c.shares()
			g, err := shops[i%len(shops)].Acquire(p.Context(), asks)
			c.must(err)
			read()
			c.letGo(shops[i%len(shops)], g.Lease)
		}))
	}
	for _, wait := range left {
		wait()
	}

	evidence := c.evidence()
	evidence.Shared = true
	done := readings(evidence.Events)
	p.Measure("readers at once", float64(atOnce(done)), "")
	needless := behindReaders(done)
	p.Found(finding.NeedlessWaits, len(needless))
	last, gone := done[readers-1].at, done[readers-1].left
	story := judge.Story{Key: c.key, From: done[0].asked, To: gone}
	for _, r := range done {
		story.Who = append(story.Who, r.who)
	}
	story.Summary = func(when func(int64) string) string {
		return fmt.Sprintf("All %d readers ask at once, and at %s all of them are in.", readers, when(last))
	}
	if len(needless) > 0 {
		story.Kind = finding.NeedlessWaits
		story.Summary = func(when func(int64) string) string {
			return fmt.Sprintf("All %d readers ask at once, and are let in one by one, each when the one before has gone: the last one at %s.", readers, when(last))
		}
		for _, r := range needless {
			story.Wrong = append(story.Wrong, judge.Wrong{Who: r.who, Span: finding.Waits})
		}
	}
	p.Witness(judge.Tell(together(evidence), story))
	p.Judge(evidence)
}

// reading is what one reader did, once.
type reading struct {
	who             string
	asked, at, left int64
}

// readings are those of all readers, in the order in which they were let in. One that
// is not over has left 0.
func readings(events []trace.Event) []reading {
	var all []reading
	open := map[string]int{} // by owner
	for _, e := range sorted(events) {
		switch {
		case !strings.HasPrefix(e.Who, "reader"):
		case e.Kind == trace.Acquired:
			open[e.Owner] = len(all)
			all = append(all, reading{who: e.Who, asked: e.Asked, at: e.At})
		case e.Kind == trace.Releasing:
			if i, ok := open[e.Owner]; ok {
				all[i].left = e.At
			}
		}
	}
	return all
}

// behindReaders are the readers that were let in only after one had gone that was in
// when they asked.
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

// atOnce is how many readers were in at the same time, at most.
func atOnce(reads []reading) int {
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

// writerAmongReaders has a writer come among readers that come and go.
func writerAmongReaders(p *lab.Play, with lab.Setup) {
	const writer = "writer"
	c := gather(p, with)
	shops := []*actor.Actor{c.hire("shop-1"), c.hire("shop-2")}
	desk := c.hire("desk")
	c.observe()
	open, stop := context.WithCancel(p.Context())
	defer stop()
	over := make([]func(), len(shops))
	for i, shop := range shops {
		loop := actor.Loop{Acquire: c.ask("reader"), Workers: readersEach, Hold: reads, Think: rests, For: readersFor}
		loop.Shared = c.shares()
		over[i] = p.Go(func() {
			if _, err := shop.Loop(open, loop); open.Err() == nil {
				c.must(err)
			}
		})
		c.awaitReaders(shop, 1)
		p.Pause(reads / 2) // the others rest at other times
	}
	for _, shop := range shops {
		c.awaitReaders(shop, readersBefore)
	}
	g, err := desk.Acquire(p.Context(), c.ask(writer))
	c.must(err)
	p.Pause(writes)
	c.letGo(desk, g.Lease)
	p.Pause(2 * reads) // those who waited come in
	stop()
	for _, wait := range over {
		wait()
	}

	evidence := c.evidence()
	evidence.Shared = true
	for i := range evidence.Events { // readers they are also under a lock that does not know it
		evidence.Events[i].Shared = strings.HasPrefix(evidence.Events[i].Who, "reader")
	}
	all := readings(evidence.Events)
	before := letInBefore(all, g.Asked, g.At)
	p.Found(finding.Starved, starvedWriters(before))
	p.Measure("readers at once", float64(atOnce(all)), "")
	p.Measure("the writer waited", millis(g.Waited()), "ms")
	p.Measure("readers let in that came after the writer", float64(before), "")
	if judge.Judge(evidence).Anomalies[finding.Overlaps] == 0 {
		c.showTurns(evidence, all, g)
	}
	p.Judge(evidence)
}

// letInBefore counts the readers that asked after somebody and got in before.
func letInBefore(all []reading, asked, at int64) int {
	n := 0
	for _, r := range all {
		if r.asked > asked && r.at < at {
			n++
		}
	}
	return n
}

// starvedWriters is 1 where so many later readers were let in before the writer that it
// was not its turn.
func starvedWriters(before int) int {
	if before > laterReaders {
		return 1
	}
	return 0
}

// showTurns draws the readers before the writer, the writer, and those after it.
func (c *company) showTurns(evidence judge.Evidence, all []reading, writer actor.Grant) {
	left := writer.At + int64(writes)
	story := judge.Story{Key: c.key, Who: []string{"writer"}, From: writer.Asked - int64(reads), To: left + int64(reads)}
	waiting := 0
	for _, r := range all {
		if !slices.Contains(story.Who, r.who) {
			story.Who = append(story.Who, r.who)
		}
		if r.asked < left && r.at > left {
			waiting++
		}
	}
	story.Summary = func(when func(int64) string) string {
		return fmt.Sprintf("The writer comes at %s, and the door is closed to new readers; it is alone from %s to %s, and then the %d readers that have gathered come in together.",
			when(writer.Asked), when(writer.At), when(left), waiting)
	}
	c.Witness(judge.Tell(together(evidence), story))
}

// together is the evidence for a picture in which the store has "readers", whichever of
// several that share it the store named.
func together(evidence judge.Evidence) judge.Evidence {
	shared := map[string]bool{}
	for _, e := range evidence.Events {
		if e.Kind == trace.Acquired && e.Shared {
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

// awaitReaders waits until a process has let so many readers in.
func (c *company) awaitReaders(shop *actor.Actor, n int) {
	c.Until("readers to come and go in "+shop.Name(), func() bool { return len(readings(shop.Events())) >= n })
}
