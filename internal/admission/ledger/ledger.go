package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/redisscript"
)

// Client is what the ledger needs of go-redis. Each of its clients implements it. A command must end with its context,
// so set ContextTimeoutEnabled.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// Options are the optional settings of a [Ledger].
type Options struct {
	// WaitReplicas is how many replicas must have what a script wrote before its reply counts (WAIT). Default 0: the
	// primary's reply is enough.
	WaitReplicas int
	// WaitTimeout bounds that wait.
	WaitTimeout time.Duration
	// Generation is that of the pair of database and Redis; nil: 0. A bucket that was closed or opened under a later
	// one is another database's now.
	Generation func() int64
	// RepeatReads lets go-redis repeat [Ledger.State] as its client is configured to. By default no command is
	// repeated, and the caller decides.
	RepeatReads bool
}

// Ledger runs the scripts of the gate. It is safe for use by several goroutines.
type Ledger struct {
	client   Client
	options  Options
	scripts  scripts
	tracking tracking
}

type scripts struct {
	admit, state, close, open, window, give, take, giveBack, replicate, replicateAll, remove *redisscript.Script
}

// New returns a ledger on a client.
func New(client Client, options Options) *Ledger {
	return &Ledger{client: client, options: options, scripts: scripts{
		admit: redisscript.New(admitSource), state: redisscript.New(stateSource),
		close: redisscript.New(closeSource), open: redisscript.New(openSource), window: redisscript.New(windowSource),
		give: redisscript.New(giveSource), take: redisscript.New(takeSource), giveBack: redisscript.New(returnSource),
		replicate: redisscript.New(replicateSource), replicateAll: redisscript.New(replicateAllSource), remove: redisscript.New(removeSource),
	}}
}

// CloseTracking ends the connections on which Redis tells [Ledger.Backlogs] what has changed.
func (l *Ledger) CloseTracking() { l.tracking.close() }

func (l *Ledger) generation() int64 {
	if l.options.Generation == nil {
		return 0
	}
	return l.options.Generation()
}

// run runs a script that go-redis must not repeat, and returns its reply as a list. The first two elements of args must
// be left free, see [redisscript.Args].
func (l *Ledger) run(ctx context.Context, script *redisscript.Script, args []any) ([]any, error) {
	return runBy(ctx, script, args, func(cmd redisscript.Cmd) (any, error) { return l.send(ctx, cmd) })
}

// read is run for a script that writes nothing.
func (l *Ledger) read(ctx context.Context, script *redisscript.Script, args []any) ([]any, error) {
	if !l.options.RepeatReads {
		return l.run(ctx, script, args)
	}
	return runBy(ctx, script, args, func(cmd redisscript.Cmd) (any, error) {
		_ = l.client.Process(ctx, cmd.Cmd)
		return cmd.Result()
	})
}

func runBy(
	ctx context.Context, script *redisscript.Script, args []any, send func(redisscript.Cmd) (any, error),
) ([]any, error) {
	var reply any
	err := script.Run(ctx, args, func(cmd redisscript.Cmd) (err error) {
		reply, err = send(cmd)
		return err
	})
	if err != nil && !errors.Is(err, ErrUnacknowledged) {
		return nil, err
	}
	if list, isList := reply.([]any); isList {
		return list, err
	}
	return []any{reply}, err
}

// send sends a command. If it fails on a cluster, send has the client reload the map of the cluster: for a command that
// must not be repeated the client does not do so by itself, and would ask a node that is gone for a minute. MOVED is
// such a failure too.
func (l *Ledger) send(ctx context.Context, cmd redisscript.Cmd) (any, error) {
	_ = l.client.Process(ctx, cmd)
	l.failed(ctx, cmd.Err())
	return cmd.Result()
}

// number returns the reply of a script that replies with one number.
func number(reply []any, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if n := numbers(reply); len(n) == 1 {
		return n[0], nil
	}
	return 0, unexpected(reply)
}

// numbers returns the numbers that a reply begins with.
func numbers(reply []any) []int64 {
	all := make([]int64, 0, len(reply))
	for _, one := range reply {
		n, isNumber := one.(int64)
		if !isNumber {
			break
		}
		all = append(all, n)
	}
	return all
}

func unexpected(reply any) error {
	return fmt.Errorf("%w: unexpected reply %v", order.ErrUnavailable, reply)
}

// Harmless reports whether a call that failed with err has changed nothing and never will: the call did not reach the
// server, or the server refused it before the script wrote anything. After any other error it is unknown what the
// script has done.
func Harmless(err error) bool {
	if errors.Is(err, ErrUnacknowledged) {
		return false
	}
	return redisscript.NotSent(err) || redisscript.Refused(err)
}
