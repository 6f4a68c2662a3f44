package session

import (
	"context"
	"errors"
	"fmt"

	"seckill/internal/lock"
	"seckill/internal/redisscript"
)

// run executes a script. See [redisscript.Script.Run].
func (b *batcher) run(ctx context.Context, s *redisscript.Script, keys []string, argv ...any) *call {
	return runBy(ctx, b.send, s, keys, argv...)
}

// runDirect is run for an operation that is repeated where its outcome is unknown: the caller may send the command
// itself.
func (b *batcher) runDirect(ctx context.Context, s *redisscript.Script, keys []string, argv ...any) *call {
	return runBy(ctx, b.do, s, keys, argv...)
}

func runBy(
	ctx context.Context, send func(context.Context, redisscript.Cmd) *call,
	s *redisscript.Script, keys []string, argv ...any,
) (c *call) {
	_ = s.Run(context.Background(), redisscript.Args(keys, argv...), func(cmd redisscript.Cmd) error {
		c = send(ctx, cmd)
		if !c.wait(ctx) {
			return errNoReply
		}
		return c.err // the call has it
	})
	return c
}

// notSent reports whether err proves that the command did not reach a server.
func notSent(err error) bool { return errors.Is(err, errNotSent) || redisscript.NotSent(err) }

// unexpected is the error for a reply that no script gives.
func unexpected(reply any) error {
	return fmt.Errorf("%w: unexpected reply %v", lock.ErrWrongKind, reply)
}
