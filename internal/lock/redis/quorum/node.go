package quorum

import (
	"context"
	_ "embed"
	"fmt"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/redisscript"
)

var (
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string
	//go:embed inspect.lua
	inspectSource string
)

// Client is what the mechanisms need of go-redis, once for each node. No operation waits for a node longer than
// NodeTimeout. A client with ContextTimeoutEnabled frees its connection then; one without keeps it for its own
// ReadTimeout.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner // for renewals, of many leases at once
}

// scripts are the operations on a node.
type scripts struct{ release, extend, inspect *redisscript.Script }

func newScripts() scripts {
	return scripts{redisscript.New(releaseSource), redisscript.New(extendSource), redisscript.New(inspectSource)}
}

// command is one command for a node, or for each of several: a script with its key and arguments, or a plain command on
// a key.
type command struct {
	script *redisscript.Script // nil for a plain command
	verb   string              // of a plain command
	name   string              // the key
	args   []any
}

// short returns the command as it is sent first: a script by its digest.
func (c command) short() redisscript.Cmd {
	if c.script == nil {
		return redisscript.NewCmd(context.Background(), 1, append([]any{c.verb, c.name}, c.args...)...)
	}
	return c.script.ByDigest(context.Background(), redisscript.Args([]string{c.name}, c.args...))
}

// source returns the command with the source of its script.
func (c command) source() redisscript.Cmd {
	return c.script.BySource(context.Background(), redisscript.Args([]string{c.name}, c.args...))
}

// set is SET NX. With GET (Redis 7.0) it also returns the value of a key that is taken, so a repetition after a lost
// reply finds its own value and not just "taken".
func set(name, value string, ttl time.Duration) command {
	return command{verb: "set", name: name, args: []any{value, "nx", "get", "px", ttl.Milliseconds()}}
}

func del(name string) command { return command{verb: "del", name: name} }

func run(script *redisscript.Script, name string, args ...any) command {
	return command{script: script, name: name, args: args}
}

// reply is a node's reply to one command.
type reply struct {
	val any
	// err is nil, the node's own error (answered), or the reason why there is no reply.
	err      error
	answered bool
	// maybeRun: the command was sent once without a reply. The node may have run it, or may still run it, in addition
	// to the repetition that was answered.
	maybeRun bool
}

// node is one of the independent servers.
type node struct {
	name   string
	client Client
}

// do sends commands in one pipeline and returns a reply for each. It repeats a command without a reply once, while ctx
// allows, and sends the source of a script that the node does not have.
func (n *node) do(ctx context.Context, commands []command) []reply {
	replies := make([]reply, len(commands))
	pending := make([]int, len(commands)) // indexes in commands
	cmds := make([]redisscript.Cmd, len(commands))
	for i, c := range commands {
		pending[i], cmds[i] = i, c.short()
	}
	for range 3 { // by digest; a repetition, or with the source; the other of the two
		n.exec(ctx, cmds)
		var next []int
		var again []redisscript.Cmd
		for i, at := range pending {
			r := &replies[at]
			r.val, r.err = cmds[i].Result()
			r.answered = redisscript.Answered(r.err)
			switch {
			case redisscript.Missing(r.err):
				next, again = append(next, at), append(again, commands[at].source())
			case r.answered:
			case !r.maybeRun && ctx.Err() == nil:
				next, again = append(next, at), append(again, commands[at].short())
				fallthrough
			default:
				r.maybeRun = true
			}
		}
		if len(next) == 0 {
			break
		}
		pending, cmds = next, again
	}
	return replies
}

// exec sends the commands, which keep their outcome. go-redis has fewer connections for pipelines by default, so a
// single command is sent without one.
func (n *node) exec(ctx context.Context, commands []redisscript.Cmd) {
	if len(commands) == 1 {
		_ = n.client.Process(ctx, commands[0])
		return
	}
	pipe := n.client.Pipeline()
	for _, c := range commands {
		_ = pipe.Process(ctx, c) // queues it
	}
	if _, err := pipe.Exec(ctx); err != nil && !redisscript.Answered(err) {
		for _, c := range commands {
			if c.Err() == nil && c.Val() == nil {
				c.SetErr(err)
			}
		}
	}
}

// newNodes refuses a nil client, and two clients that visibly reach the same node.
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
			if other.name == nodes[i].name || sameClient(other.client, client) {
				return nil, invalid("node %d is node %d again, %s: two votes of one server are one", i+1, j+1, other.name)
			}
		}
	}
	return nodes, nil
}

func sameClient(a, b Client) bool {
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// unexpected is the error for a reply that no command here gives.
func unexpected(val any) error {
	return fmt.Errorf("%w: unexpected reply %v", lock.ErrWrongKind, val)
}
