package session

import (
	"context"
	"crypto/sha1" // the digest by which EVALSHA names a script; no secret
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// script is one operation: its source and the digest that stands for it.
type script struct {
	source string
	digest string
}

func newScript(source string) script {
	digest := sha1.Sum([]byte(source))
	return script{source: source, digest: hex.EncodeToString(digest[:])}
}

// once is a command that go-redis must not repeat by itself. By default it sends
// a command up to four times, and says nothing about it; here the caller decides,
// and knows.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// newOnce makes a command. firstKey says which argument is a key: it decides on a
// cluster's node.
func newOnce(firstKey int8, args ...any) once {
	cmd := redis.NewCmd(context.Background(), args...)
	cmd.SetFirstKeyPos(firstKey)
	return once{cmd}
}

// command makes EVALSHA or EVAL.
func command(verb, program string, keys []string, argv []any) once {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, verb, program, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	return newOnce(3, append(args, argv...)...)
}

// run executes a script: by its digest, and by its source where the server does
// not know the digest yet, which is the one case of a second round trip.
func (p *pipe) run(ctx context.Context, s script, keys []string, argv ...any) *call {
	c := p.send(ctx, command("evalsha", s.digest, keys, argv))
	if c.wait(ctx) && unknownScript(c.err) {
		c = p.send(ctx, command("eval", s.source, keys, argv))
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

// strange is for a reply that no script gives.
func strange(reply any) error {
	return fmt.Errorf("%w: unexpected reply %v", lock.ErrWrongKind, reply)
}
