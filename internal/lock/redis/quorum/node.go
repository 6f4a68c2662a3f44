package quorum

import (
	"context"
	"crypto/sha1" // the digest by which EVALSHA names a script; no secret
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

var (
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string
	//go:embed inspect.lua
	inspectSource string
)

// Client is what the mechanisms need of go-redis, once for each node. A client
// with ContextTimeoutEnabled frees its connection when NodeTimeout is over; one
// without is not waited for any longer, but keeps it for its own ReadTimeout.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner // for renewals, of many leases at once
}

// script is one operation on a node: its source and the digest that stands for it.
type script struct{ source, digest string }

func newScript(source string) script {
	digest := sha1.Sum([]byte(source))
	return script{source: source, digest: hex.EncodeToString(digest[:])}
}

type scripts struct{ release, extend, inspect script }

func newScripts() scripts {
	return scripts{newScript(releaseSource), newScript(extendSource), newScript(inspectSource)}
}

// once is a command that go-redis must not repeat by itself. It would send it up
// to four times and not say so; here a node repeats it, and remembers.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// command is one command for a node. args are what follows the script, or all of
// it where there is no script.
type command struct {
	script *script
	args   []any
}

func (c command) verb(verb, program string) once {
	if c.script == nil {
		return once{redis.NewCmd(context.Background(), c.args...)}
	}
	return once{redis.NewCmd(context.Background(), append([]any{verb, program, 1}, c.args...)...)}
}

func (c command) short() once {
	if c.script == nil {
		return c.verb("", "")
	}
	return c.verb("evalsha", c.script.digest)
}

// set is SET NX, which with GET (Redis 7.0) says also who has the key: a repeated
// one whose first reply was lost finds its own value and not just "taken".
func set(name, value string, ttl time.Duration) command {
	return command{args: []any{"set", name, value, "nx", "get", "px", ttl.Milliseconds()}}
}

func del(name string) command { return command{args: []any{"del", name}} }

func (s *script) on(name string, args ...any) command {
	return command{script: s, args: append([]any{name}, args...)}
}

// reply is what a node said to one command.
type reply struct {
	val any
	// err is nil, or the node's own error (answered), or why there is no answer.
	err      error
	answered bool
	// inDoubt: a try of the command had no answer, so that it may have been carried
	// out, or may yet be, beside the one that was answered.
	inDoubt bool
}

// node is one of the independent servers.
type node struct {
	name   string
	client Client
}

// do sends commands, in one pipeline, and gives a reply for each. What had no answer
// is sent a second time while ctx allows, and what the node has no script for
// with its source.
func (n *node) do(ctx context.Context, commands []command) []reply {
	replies := make([]reply, len(commands))
	open := make([]int, len(commands))
	wire := make([]once, len(commands))
	for i, c := range commands {
		open[i], wire[i] = i, c.short()
	}
	for range 3 { // by digest; again, or with the source; and both
		n.exec(ctx, wire)
		var next []int
		var again []once
		for i, at := range open {
			r := &replies[at]
			r.val, r.err = wire[i].Result()
			r.answered = answered(r.err)
			switch {
			case redis.HasErrorPrefix(r.err, "NOSCRIPT"):
				next, again = append(next, at), append(again, commands[at].verb("eval", commands[at].script.source))
			case r.answered:
			case !r.inDoubt && ctx.Err() == nil:
				next, again = append(next, at), append(again, commands[at].short())
				fallthrough
			default:
				r.inDoubt = true
			}
		}
		if len(next) == 0 {
			break
		}
		open, wire = next, again
	}
	return replies
}

// exec leaves the outcome in the commands. go-redis keeps other connections for
// pipelines, and by default fewer: a command alone is none.
func (n *node) exec(ctx context.Context, commands []once) {
	if len(commands) == 1 {
		_ = n.client.Process(ctx, commands[0])
		return
	}
	pipe := n.client.Pipeline()
	for _, c := range commands {
		_ = pipe.Process(ctx, c) // queues it
	}
	if _, err := pipe.Exec(ctx); err != nil && !answered(err) {
		for _, c := range commands {
			if c.Err() == nil && c.Val() == nil {
				c.SetErr(err)
			}
		}
	}
}

// answered reports that the node itself replied, if only with an error.
func answered(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return true
	}
	_, isReply := errors.AsType[redis.Error](err)
	return isReply
}

// newNodes refuses what is no node, or visibly the same one twice.
func newNodes(clients []Client) ([]*node, error) {
	nodes := make([]*node, len(clients))
	for i, client := range clients {
		if client == nil {
			return nil, invalid("node %d has no client", i+1)
		}
		nodes[i] = &node{name: fmt.Sprintf("node %d", i+1), client: client}
		if c, ok := client.(interface{ Options() *redis.Options }); ok {
			nodes[i].name = c.Options().Addr
		}
		for j, other := range nodes[:i] {
			if other.name == nodes[i].name || same(other.client, client) {
				return nil, invalid("node %d is node %d again, %s: two votes of one server are one", i+1, j+1, other.name)
			}
		}
	}
	return nodes, nil
}

func same(a, b Client) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// strange is for a reply that no command of ours gives.
func strange(val any) error {
	return fmt.Errorf("%w: unexpected reply %v", lock.ErrWrongKind, val)
}
