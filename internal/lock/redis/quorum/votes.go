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

// errSilent is the error of a node that did not answer in time.
var errSilent = errors.New("no answer in time")

// askNodes sends the same commands at the same time to the nodes for which ask is true, or to all where ask is nil, and
// waits for at most timeout. The first index of the result is the node, the second the command. A node that was not
// asked has no replies.
func askNodes(ctx context.Context, timeout time.Duration, nodes []*node, ask []bool, commands ...command) [][]reply {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var mu sync.Mutex // guards replies: a late node must not write to what was returned
	replies, returned := make([][]reply, len(nodes)), false
	var all sync.WaitGroup
	for i, n := range nodes {
		if ask != nil && !ask[i] {
			continue
		}
		replies[i] = noReplies(len(commands))
		all.Go(func() {
			got := n.do(ctx, commands)
			mu.Lock()
			defer mu.Unlock()
			if !returned {
				replies[i] = got
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		// A client that obeys deadlines is about to return, and may have a reply.
		grace := time.NewTimer(timeout / 10)
		defer grace.Stop()
		select {
		case <-done:
		case <-grace.C:
		}
	}
	mu.Lock()
	defer mu.Unlock()
	returned = true
	return replies
}

// noReplies is the result of a node that did not answer. It may have run any of the commands.
func noReplies(n int) []reply {
	replies := make([]reply, n)
	for i := range replies {
		replies[i] = reply{err: errSilent, maybeRun: true}
	}
	return replies
}

// verdict is the meaning of one node's reply.
type verdict uint8

const (
	unknown    verdict = iota // no reply, or one that proves nothing
	ours                      // granted, extended or deleted
	free                      // nobody holds the key on the node
	theirs                    // another holder has the key there
	wrongValue                // the key holds something that is no lock
)

// vote is one node's verdict.
type vote struct {
	verdict verdict
	value   string // where the verdict is theirs and the command returns it
	err     error  // where the verdict is unknown or wrongValue
	// maybeRun: an attempt had no reply, see [reply].
	maybeRun bool
}

// parseSet parses the reply to [set].
func parseSet(r reply, value string) vote {
	found, isText := r.val.(string)
	switch {
	case errors.Is(r.err, redis.Nil), r.err == nil && found == value:
		return vote{verdict: ours}
	case r.err == nil && isText:
		return vote{verdict: theirs, value: found}
	}
	return failedVote(r)
}

// parseVote parses the reply to release.lua and extend.lua.
func parseVote(r reply) vote {
	if r.err == nil {
		switch r.val {
		case int64(1):
			return vote{verdict: ours, maybeRun: r.maybeRun}
		case int64(0):
			return vote{verdict: free, maybeRun: r.maybeRun}
		case int64(-1):
			return vote{verdict: theirs, maybeRun: r.maybeRun}
		}
	}
	return failedVote(r)
}

func failedVote(r reply) vote {
	switch {
	case r.err == nil:
		return vote{verdict: wrongValue, err: unexpected(r.val)}
	case redis.HasErrorPrefix(r.err, "WRONGTYPE"):
		return vote{verdict: wrongValue, err: fmt.Errorf("%w: %w", lock.ErrWrongKind, r.err)}
	}
	return vote{verdict: unknown, err: r.err, maybeRun: r.maybeRun}
}

// count returns how many nodes gave a verdict.
func count(votes []vote, v verdict) int {
	n := 0
	for _, vote := range votes {
		if vote.verdict == v {
			n++
		}
	}
	return n
}

// mostVotes returns the other holder's value that most nodes have, and their number.
func mostVotes(votes []vote) (value string, n int) {
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

// holder returns the owner in a value, which is "<id>#<owner>".
func holder(value string) lock.Owner {
	_, owner, _ := strings.Cut(value, "#")
	return lock.Owner(owner)
}

// unavailable is the error that names the nodes that did not answer. Their errors are in its text and not wrapped: a
// node's deadline is not the caller's.
func (l *Locker) unavailable(what string, votes []vote) error {
	var silent []string
	for i, v := range votes {
		if v.verdict == unknown {
			silent = append(silent, fmt.Sprintf("%s: %v", l.nodes[i].name, v.err))
		}
	}
	return fmt.Errorf("%w: %s: of %d nodes %d are needed, %d did not answer (%s)",
		lock.ErrUnavailable, what, len(l.nodes), l.quorum, len(silent), strings.Join(silent, "; "))
}

// wrongKind is the error that names a node whose key holds something else.
func (l *Locker) wrongKind(votes []vote) error {
	for i, v := range votes {
		if v.verdict == wrongValue {
			return fmt.Errorf("%s: %w", l.nodes[i].name, v.err)
		}
	}
	return lock.ErrWrongKind
}
