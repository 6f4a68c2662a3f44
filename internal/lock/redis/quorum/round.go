package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// errSilent is a node without an answer within its time.
var errSilent = errors.New("no answer in time")

// round sends the same commands to the nodes for which ask is true, or to all where
// ask is nil, at the same time, and waits for them at most timeout. The first index
// of the result is the node, the second the command; a node that was not asked has
// no replies.
func round(ctx context.Context, timeout time.Duration, nodes []*node, ask []bool, commands ...command) [][]reply {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var mu sync.Mutex // guards replies: a node that is late must not write to what was handed out
	replies, handedOut := make([][]reply, len(nodes)), false
	var all sync.WaitGroup
	for i, n := range nodes {
		if ask != nil && !ask[i] {
			continue
		}
		replies[i] = silence(len(commands))
		all.Go(func() {
			got := n.do(ctx, commands)
			mu.Lock()
			defer mu.Unlock()
			if !handedOut {
				replies[i] = got
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		// A client that minds deadlines is about to return, and may have an answer.
		grace := time.NewTimer(timeout / 10)
		defer grace.Stop()
		select {
		case <-done:
		case <-grace.C:
		}
	}
	mu.Lock()
	defer mu.Unlock()
	handedOut = true
	return replies
}

// silence is what a node said that did not answer: any of it may have been done.
func silence(n int) []reply {
	replies := make([]reply, n)
	for i := range replies {
		replies[i] = reply{err: errSilent, inDoubt: true}
	}
	return replies
}

// verdict is what one node's reply means.
type verdict uint8

const (
	unknown verdict = iota // no answer, or one from which nothing follows
	ours                   // granted, extended or deleted
	gone                   // nobody has the node
	theirs                 // somebody else has it
	spoiled                // it holds something that is no lock
)

// vote is one node's verdict.
type vote struct {
	verdict verdict
	value   string // of theirs, where the command tells
	err     error  // of unknown and spoiled
	// inDoubt: a try had no answer, see reply.
	inDoubt bool
}

// granted reads the reply to [set].
func granted(r reply, value string) vote {
	found, isText := r.val.(string)
	switch {
	case errors.Is(r.err, redis.Nil), r.err == nil && found == value:
		return vote{verdict: ours}
	case r.err == nil && isText:
		return vote{verdict: theirs, value: found}
	}
	return failed(r)
}

// judged reads the reply to release.lua and extend.lua.
func judged(r reply) vote {
	if r.err == nil {
		switch r.val {
		case int64(1):
			return vote{verdict: ours, inDoubt: r.inDoubt}
		case int64(0):
			return vote{verdict: gone, inDoubt: r.inDoubt}
		case int64(-1):
			return vote{verdict: theirs, inDoubt: r.inDoubt}
		}
	}
	return failed(r)
}

func failed(r reply) vote {
	switch {
	case r.err == nil:
		return vote{verdict: spoiled, err: strange(r.val)}
	case redis.HasErrorPrefix(r.err, "WRONGTYPE"):
		return vote{verdict: spoiled, err: fmt.Errorf("%w: %w", lock.ErrWrongKind, r.err)}
	}
	return vote{verdict: unknown, err: r.err, inDoubt: r.inDoubt}
}

// count says how many nodes gave a verdict.
func count(votes []vote, v verdict) int {
	n := 0
	for _, vote := range votes {
		if vote.verdict == v {
			n++
		}
	}
	return n
}

// leader is the value that most nodes gave to somebody else, and how many did.
func leader(votes []vote) (value string, n int) {
	has := make(map[string]int)
	for _, v := range votes {
		if v.verdict != theirs {
			continue
		}
		if has[v.value]++; has[v.value] > n {
			value, n = v.value, has[v.value]
		}
	}
	return value, n
}

// holder is the owner in a value, which is an id, # and the owner.
func holder(value string) lock.Owner {
	_, owner, _ := strings.Cut(value, "#")
	return lock.Owner(owner)
}

// unavailable names the nodes that did not answer. Their errors are told and not
// wrapped: a node's deadline is not the caller's.
func (l *Locker) unavailable(what string, votes []vote) error {
	var silent []string
	for i, v := range votes {
		if v.verdict == unknown {
			silent = append(silent, fmt.Sprintf("%s: %v", l.nodes[i].name, v.err))
		}
	}
	return fmt.Errorf("%w: %s: of %d nodes %d are needed, %d did not answer (%s)",
		lock.ErrUnavailable, what, len(l.nodes), l.need, len(silent), strings.Join(silent, "; "))
}

// wrongKind names the nodes that hold something else.
func (l *Locker) wrongKind(votes []vote) error {
	for i, v := range votes {
		if v.verdict == spoiled {
			return fmt.Errorf("%s: %w", l.nodes[i].name, v.err)
		}
	}
	return lock.ErrWrongKind
}
