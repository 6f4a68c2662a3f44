package quorum

import (
	"context"
	"time"

	"seckill/internal/lock"
)

// A node that did not answer may yet carry out what it was sent. So what it may
// have is taken away again and again in the background: until it has answered for
// lock.ReleaseTimeout, by when it has read what it still had to, and for at most
// hanging. maxSettling bounds how many such clean-ups a locker has under way; what
// is beyond it runs out with its lease.
const (
	hanging     = time.Minute
	settleFirst = 10 * time.Millisecond
	settleEvery = 500 * time.Millisecond
	maxSettling = 256
)

// giveBack takes away at once what an attempt that failed was granted, from every
// node that has it or may have it. One that fails does not stop the others. What a
// node refused for certain it cannot have.
func (l *Locker) giveBack(a *attempt) {
	if !anyOf(a.touched) {
		return
	}
	replies := round(context.Background(), l.config.NodeTimeout, l.nodes, a.touched, l.scripts.release.on(a.name, a.value))
	votes := make([]vote, len(l.nodes))
	for i, touched := range a.touched {
		votes[i] = vote{verdict: gone}
		if touched {
			votes[i] = judged(replies[i][0])
		}
	}
	l.settle(a.name, a.value, unsure(votes, a.pending))
}

// unsure marks the nodes that did not answer, now or when the lock was set.
func unsure(votes []vote, pending []bool) []bool {
	open := make([]bool, len(votes))
	for i, v := range votes {
		open[i] = pending[i] || v.verdict == unknown
	}
	return open
}

// settle goes on in the background where a node is open.
func (l *Locker) settle(name, value string, open []bool) {
	if !anyOf(open) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.settling >= maxSettling {
		return
	}
	l.settling++
	l.running.Go(func() {
		defer func() {
			l.mu.Lock()
			l.settling--
			l.mu.Unlock()
		}()
		l.takeAway(name, value, open)
	})
}

func (l *Locker) takeAway(name, value string, open []bool) {
	ctx, cancel := context.WithTimeout(l.closing, hanging)
	defer cancel()
	heard := make([]time.Time, len(open)) // when a node first answered
	for wait := settleFirst; anyOf(open); wait = min(2*wait, settleEvery) {
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return
		}
		replies := round(ctx, l.config.NodeTimeout, l.nodes, open, l.scripts.release.on(name, value))
		for i := range open {
			switch {
			case !open[i] || !replies[i][0].answered:
			case heard[i].IsZero():
				heard[i] = time.Now()
			case time.Since(heard[i]) > lock.ReleaseTimeout:
				open[i] = false
			}
		}
	}
}

func anyOf(marks []bool) bool {
	for _, m := range marks {
		if m {
			return true
		}
	}
	return false
}
