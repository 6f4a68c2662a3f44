package reentrant

import (
	"context"
	"crypto/sha1" // the digest by which EVALSHA names a script; no secret
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
	//go:embed renew.lua
	renewSource string
	//go:embed inspect.lua
	inspectSource string
)

// script is one operation: its source and the digest that stands for it.
type script struct {
	source string
	digest string
	keys   int
}

func newScript(source string, keys int) script {
	digest := sha1.Sum([]byte(source))
	return script{source: source, digest: hex.EncodeToString(digest[:]), keys: keys}
}

// scripts are the operations on a lock.
type scripts struct {
	acquire, release, renew, inspect script
}

func newScripts() scripts {
	return scripts{
		acquire: newScript(acquireSource, 1),
		release: newScript(releaseSource, 2),
		renew:   newScript(renewSource, 1),
		inspect: newScript(inspectSource, 1),
	}
}

// once is a command that go-redis must not repeat by itself. By default it sends
// a command up to four times, and says nothing about it; here the caller decides,
// and knows.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

func newOnce(verb, program string, keys int, args []any) once {
	all := make([]any, 0, 3+len(args))
	all = append(append(all, verb, program, keys), args...)
	cmd := redis.NewCmd(context.Background(), all...)
	cmd.SetFirstKeyPos(3) // the key decides on the cluster's node
	return once{cmd}
}

// run executes a script: by its digest, and by its source where the server does
// not know the digest yet, which is the one case of a second round trip.
func (p *pipe) run(ctx context.Context, s script, args ...any) *call {
	c := p.send(ctx, newOnce("evalsha", s.digest, s.keys, args))
	if c.wait(ctx) && unknownScript(c.err) {
		c = p.send(ctx, newOnce("eval", s.source, s.keys, args))
		c.wait(ctx)
	}
	return c
}

// unknownScript reports that the server does not have the script yet, or lost it.
func unknownScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// never reports that err means the command did not reach a server.
func never(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errors.Is(err, errNotSent) || errors.Is(err, redis.ErrPoolTimeout)
}

// answered reports that the server itself replied, if only with an error.
func answered(err error) bool {
	_, isReply := errors.AsType[redis.Error](err)
	return err == nil || isReply
}

// strange is for a reply that no script of ours gives.
func strange(reply any) error {
	return fmt.Errorf("%w: unexpected reply %v", lock.ErrWrongKind, reply)
}
