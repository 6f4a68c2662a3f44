package admission

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
)

// errUnacknowledged: Redis did what it was asked to, and fewer replicas than wanted have
// it. If one of the others is promoted now, it never was. Where it was about orders,
// what became of them is not known; the same again finds out.
var errUnacknowledged = errors.New("too few replicas have what Redis did")

//go:embed kept.lua
var keptSource string

// replicas says how many of a server's replicas must have what it wrote before that
// counts, and how long they are waited for. None by default.
type replicas struct {
	n     int
	limit time.Duration
}

// waiting has the server count what replicas have alone, where c says so.
func (s *server) waiting(c Config) *server {
	s.replicas = replicas{n: c.WaitReplicas, limit: c.WaitTimeout}
	return s
}

// pipeliner is a client of one node.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// cluster is a client of many nodes, of which it knows the one that has a key.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

var _ cluster = (*redis.ClusterClient)(nil)

// node is where WAIT is to be sent: to the node that did the work. A cluster's client
// would send it, as it names no key, to any of them.
func (s *server) node(ctx context.Context, key string) (pipeliner, error) {
	if c, many := s.client.(cluster); many {
		return c.MasterForKey(ctx, key)
	}
	return s.client, nil
}

// failed has a cluster's client find out who has which key now. By itself it does not
// where a node is gone and the command is not one to repeat: for a minute it would ask
// the node that is gone. Here MOVED is such an error too.
func (s *server) failed(ctx context.Context, err error) {
	if c, many := s.client.(cluster); many && err != nil {
		c.ReloadState(ctx)
	}
}

// doAcknowledged is do for a command on a key, with WAIT behind it in the same round
// trip. Both are on one connection, since WAIT speaks of what its own connection wrote.
//
// With a reply and [errUnacknowledged] the command was carried out. No reply within the
// time that ctx gives is any other error.
func (s *server) doAcknowledged(ctx context.Context, key string, args []any) (any, error) {
	node, err := s.node(ctx, key)
	if err != nil {
		return nil, err
	}
	cmd, wait := once{redis.NewCmd(ctx, args...)}, redis.NewIntCmd(ctx, "wait", s.replicas.n, s.replicas.limit.Milliseconds())
	both := node.Pipeline()
	_ = both.Process(ctx, cmd)
	_ = both.Process(ctx, wait)
	_, _ = both.Exec(ctx) // each command has its own error
	s.failed(ctx, cmd.Err())
	switch reply, err := cmd.Result(); {
	case err != nil:
		return nil, err
	case wait.Err() != nil: // as a server says that was made a replica in between
		return reply, fmt.Errorf("%w: %w", errUnacknowledged, wait.Err())
	case wait.Val() < int64(s.replicas.n):
		return reply, fmt.Errorf("%w: %d of %d", errUnacknowledged, wait.Val(), s.replicas.n)
	default:
		return reply, nil
	}
}

// runAcknowledged is run, where replicas are waited for until they have what the script
// wrote, and all that was written before it. With a reply and [errUnacknowledged] the
// script was carried out. The first key of args is the one that names the node.
func (s *server) runAcknowledged(ctx context.Context, sc script, args []any) ([]any, error) {
	if s.replicas.n == 0 {
		return s.run(ctx, sc, args)
	}
	key, _ := args[firstKey].(string)
	return runBy(sc, args, func(args []any) (any, error) { return s.doAcknowledged(ctx, key, args) })
}

// promised says whether an answer tells somebody that he has an order. Only these must
// not be lost: a refusal that rests on what a failover loses does no harm, as whoever
// was refused has nothing, and may ask again.
func promised(a answer) bool {
	return strings.IndexByte(a.states, accepted) >= 0 || strings.IndexByte(a.states, repeated) >= 0
}

// kept waits until enough replicas have an order that was found in Redis.
// [order.ErrUnavailable]: they do not, or the order has gone since.
func (g *Gate) kept(ctx context.Context, keys admkey.Keys, o order.Order) error {
	if g.config.WaitReplicas == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.config.AttemptTimeout)
	defer cancel()
	switch there, err := g.server.kept(ctx, keys, o); {
	case err != nil:
		return unavailable(err)
	case !there:
		return unavailable(errForgotten)
	}
	return nil
}

// kept says whether a user has an order, and waits for replicas to have it.
func (s *server) kept(ctx context.Context, keys admkey.Keys, o order.Order) (bool, error) {
	reply, err := s.runAcknowledged(ctx, s.keeping, []any{"", "", 2, keys.Meta, keys.Users, o.UserID, o.ID})
	if err != nil {
		return false, err
	}
	n := numbers(reply)
	return len(n) == 1 && n[0] == 1, nil
}
