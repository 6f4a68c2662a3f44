package quorum

import (
	"context"
	"time"

	"seckill/internal/lock"
)

// A node that did not answer may still carry out its commands. So the background repeats the release there, until the
// node has answered for lock.ReleaseTimeout (by then it has read the commands that were on their way) and for at most
// maxCleanUp. maxCleanUps bounds the clean-ups of a locker that run at the same time; the locks of further ones expire.
const (
	maxCleanUp  = time.Minute
	firstPause  = 10 * time.Millisecond
	maxPause    = 500 * time.Millisecond
	maxCleanUps = 256
)

// cleanUp releases a failed attempt on every node that granted it or may have granted it, at once. A node that fails
// does not stop the others.
func (l *Locker) cleanUp(a *attempt) {
	if !anyTrue(a.mayHold) {
		return
	}
	release := run(l.scripts.release, a.name, a.value)
	replies := askNodes(context.Background(), l.config.NodeTimeout, l.nodes, a.mayHold, release)
	votes := make([]vote, len(l.nodes))
	for i, mayHold := range a.mayHold {
		votes[i] = vote{verdict: free}
		if mayHold {
			votes[i] = parseVote(replies[i][0])
		}
	}
	l.revokeLater(a.name, a.value, openNodes(votes, a.unconfirmed))
}

// openNodes marks the nodes that did not answer, now or to the attempt.
func openNodes(votes []vote, unconfirmed []bool) []bool {
	open := make([]bool, len(votes))
	for i, v := range votes {
		open[i] = unconfirmed[i] || v.verdict == unknown
	}
	return open
}

// revokeLater continues the clean-up in the background where a node is open.
func (l *Locker) revokeLater(name, value string, open []bool) {
	if !anyTrue(open) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.cleanUps >= maxCleanUps {
		return
	}
	l.cleanUps++
	l.running.Go(func() {
		defer func() {
			l.mu.Lock()
			l.cleanUps--
			l.mu.Unlock()
		}()
		l.revoke(name, value, open)
	})
}

// revoke repeats the release on the open nodes.
func (l *Locker) revoke(name, value string, open []bool) {
	ctx, cancel := context.WithTimeout(l.closing, maxCleanUp)
	defer cancel()
	answered := make([]time.Time, len(open)) // when each node first answered
	for pause := firstPause; anyTrue(open); pause = min(2*pause, maxPause) {
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return
		}
		replies := askNodes(ctx, l.config.NodeTimeout, l.nodes, open, run(l.scripts.release, name, value))
		for i := range open {
			switch {
			case !open[i] || !replies[i][0].answered:
			case answered[i].IsZero():
				answered[i] = time.Now()
			case time.Since(answered[i]) > lock.ReleaseTimeout:
				open[i] = false
			}
		}
	}
}

func anyTrue(marks []bool) bool {
	for _, m := range marks {
		if m {
			return true
		}
	}
	return false
}
