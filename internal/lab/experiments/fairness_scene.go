package experiments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
)

// visit is one that came, and what became of it.
type visit struct {
	who       string
	asked, at int64 // at: when it was served, or had to leave
	served    bool
}

// waitersInLine has waiters come while the lock is held, each when the one before
// has its place, and then gives the lock back.
func waitersInLine(p *lab.Play, with lab.Setup) {
	c := gather(p, with)
	shops := []*actor.Actor{c.hire("shop-1"), c.hire("shop-2")}
	c.observe()
	first, err := shops[0].Acquire(p.Context(), c.ask("holder"))
	c.must(err)

	visits := make([]visit, inLine)
	open, closeDoors := context.WithCancel(p.Context())
	defer closeDoors()
	var left []func()
	for i := range visits {
		v, shop := &visits[i], shops[i%len(shops)]
		v.who = fmt.Sprintf("buyer %d", i+1)
		left = append(left, p.Go(func() { c.visit(open, shop, v) }))
		v.asked = c.await(v.who+" to ask", askedBy(v.who)).At
		c.inLine(shop, i+1)
		p.Pause(arrivalEvery)
	}
	c.letGo(shops[0], first.Lease)
	p.Pause(openFor)
	closed := time.Now().UnixNano()
	closeDoors()
	for _, wait := range left {
		wait()
	}

	evidence := c.evidence()
	wrong := overtakings(visits, closed)
	p.Found(finding.Inversions, len(wrong))
	starved := map[*visit]bool{}
	for _, o := range wrong {
		if !o.early.served {
			starved[o.early] = true
		}
	}
	p.Found(finding.Starved, len(starved))
	served := 0
	for _, v := range visits {
		if v.served {
			served++
		}
	}
	p.Measure("served", float64(served), fmt.Sprintf("of %d", inLine))
	p.Measure("the longest wait of one who was served", millis(longestWait(visits)), "ms")
	c.showOrder(evidence, visits, wrong)
	p.Judge(evidence)
}

// visit waits for the lock while the doors are open, stays and goes.
func (c *company) visit(open context.Context, shop *actor.Actor, v *visit) {
	g, err := shop.Acquire(open, c.ask(v.who))
	if v.at = g.At; err != nil && open.Err() != nil && c.Context().Err() == nil {
		v.at = time.Now().UnixNano()
		return
	}
	c.must(err)
	v.served = true
	c.Pause(servedFor)
	c.letGo(shop, g.Lease)
}

// inLine waits until the store knows of n waiters. Where it keeps no queue there is
// nothing to wait for.
func (c *company) inLine(shop *actor.Actor, n int) {
	c.Until(fmt.Sprintf("%d in line", n), func() bool {
		state, err := shop.Inspect(c.Context(), c.with.Policy.Lock, c.key)
		c.must(err)
		return state.Waiting == lock.WaitingUnknown || state.Waiting >= n
	})
}

// overtaking is one that was served while another, which had come before it, waited.
type overtaking struct {
	early, late *visit
}

// overtakings are all of them. The waiters came well apart, so that their order is
// certain. Who is served while the doors close is so by chance, and overtakes nobody.
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

// showOrder draws who overtook whom, or those that were served one after the other.
func (c *company) showOrder(evidence judge.Evidence, visits []visit, wrong []overtaking) {
	if len(wrong) == 0 {
		const shown = 4
		story := judge.Story{Key: c.key, From: visits[0].asked, To: visits[0].asked}
		for _, v := range visits[:shown] {
			story.Who, story.To = append(story.Who, v.who), max(story.To, v.at)
		}
		story.Summary = func(func(int64) string) string {
			return fmt.Sprintf("%d come, one after the other, and are served in that order: here are the first %d.", len(visits), shown)
		}
		c.Witness(judge.Tell(evidence, story))
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
		c.Witness(c.tellOvertaking(evidence, finding.Inversions, o))
	} else if o, ok := worst(false); ok {
		c.Witness(c.tellOvertaking(evidence, finding.Inversions, o))
	}
	if o, ok := worst(false); ok {
		c.Witness(c.tellOvertaking(evidence, finding.Starved, o))
	}
}

func (c *company) tellOvertaking(evidence judge.Evidence, kind finding.Kind, o overtaking) finding.Witness {
	early, late := o.early, o.late
	return judge.Tell(evidence, judge.Story{
		Kind: kind, Key: c.key, Who: []string{early.who, late.who}, From: early.asked, To: early.at,
		Wrong: []judge.Wrong{{Who: early.who, Span: finding.Waits, Mark: finding.Refuses}},
		Summary: func(when func(int64) string) string {
			end := "has to leave with nothing"
			if early.served {
				end = "is served"
			}
			return fmt.Sprintf("%s comes at %s and %s at %s; %s is served at %s, and %s %s at %s.", early.who, when(early.asked),
				late.who, when(late.asked), late.who, when(late.at), early.who, end, when(early.at))
		},
	})
}
