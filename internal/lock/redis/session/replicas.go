package session

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/redisscript"
)

// awaitReplicas returns nil once Config.Replicas replicas have the grant. The lease counts from here.
func (s *Session) awaitReplicas(ctx context.Context, r *request, g *grant) error {
	g.start, g.firstTTL = time.Now(), 0
	acknowledged := make(chan error, 1)
	// The reply comes after WAIT's own timeout, and a server that does not know the script yet is asked twice.
	limit, cancel := context.WithTimeout(s.closing, 3*s.config.CommandTimeout)
	if !s.background(func() { defer cancel(); acknowledged <- s.confirm(limit, r) }) {
		cancel()
		return s.endError(ctx, r)
	}
	select {
	case err := <-acknowledged:
		return err
	case <-ctx.Done(): // go-redis ends a command at the deadline of a context, and not when it is cancelled
		return ctx.Err()
	case <-s.closing.Done():
		return s.endError(ctx, r)
	}
}

// confirm renews the lease and waits until the replicas have that. WAIT counts those that have all writes of its own
// connection. The lock may have been granted over another one, even that of another process, so the renewal is the
// write that is waited for: a replica that has it has everything before it.
func (s *Session) confirm(ctx context.Context, r *request) error {
	client, err := s.nodeOf(ctx, r)
	if err != nil {
		return redisio.Error(ctx, err)
	}
	var renewed redisscript.Cmd
	var replicas *redis.Cmd
	_ = s.scripts.renew.Run(ctx, renewalArgs(r), func(cmd redisscript.Cmd) error {
		both := client.Pipeline() // on one connection
		renewed = cmd
		_ = both.Process(ctx, renewed)
		replicas = both.Do(ctx, "wait", s.config.Replicas, s.config.CommandTimeout.Milliseconds())
		_, _ = both.Exec(ctx) // each command has its own error
		return renewed.Err()
	})
	if lost := renewalOutcome(renewed.Val(), renewed.Err()).Err; lost != nil {
		return fmt.Errorf("%w: %q", lost, r.key)
	}
	n, err := replicas.Int()
	if err != nil {
		return redisio.Error(ctx, err)
	}
	if n < s.config.Replicas {
		return fmt.Errorf("%w: %d of %d replicas acknowledged the lock on %q within %v",
			lock.ErrUnavailable, n, s.config.Replicas, r.key, s.config.CommandTimeout)
	}
	return nil
}

// nodeOf returns a client of the server that has the lock. In a cluster, WAIT names no key and would go to any of them.
func (s *Session) nodeOf(ctx context.Context, r *request) (Client, error) {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, r.lock())
	}
	return s.client, nil
}
