package admission

import (
	"context"
	"crypto/sha1" // the digest by which EVALSHA names a script; no secret
	_ "embed"     // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

var (
	//go:embed admit.lua
	admitSource string
	//go:embed close.lua
	closeSource string
	//go:embed open.lua
	openSource string
)

// Client is what is needed of go-redis: any of its clients. A command must end with
// its context, so set ContextTimeoutEnabled.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// script is one operation: its source and the digest that stands for it.
type script struct{ source, digest string }

func newScript(source string) script {
	digest := sha1.Sum([]byte(source))
	return script{source: source, digest: hex.EncodeToString(digest[:])}
}

// server is Redis, as far as the gate goes.
type server struct {
	client                   Client
	admit, look, close, open script
	giving, taking, keeping  script
	replicas                 replicas
	observer                 Observer
}

func newServer(client Client) *server {
	return &server{
		client: client,
		admit:  newScript(admitSource), look: newScript(lookSource),
		close: newScript(closeSource), open: newScript(openSource),
		giving: newScript(giveSource), taking: newScript(takeSource),
		keeping: newScript(keptSource),
	}
}

// observed has the server tell o of the calls of admit.lua that it makes.
func (s *server) observed(o Observer) *server {
	s.observer = o
	return s
}

// once is a command that go-redis must not repeat by itself. To decide twice about an
// order does no harm; but whoever waits for the outcome has to know how often and
// until when it was asked for.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (once) NoRetry() bool { return true }

// run executes a script: by its digest, and by its source where the server does not
// know the digest, which it then did nothing about.
func (s *server) run(ctx context.Context, sc script, args []any) ([]any, error) {
	return runBy(sc, args, func(args []any) (any, error) { return s.do(ctx, args) })
}

func runBy(sc script, args []any, do func(args []any) (any, error)) ([]any, error) {
	args[0], args[1] = "evalsha", sc.digest
	reply, err := do(args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		args[0], args[1] = "eval", sc.source
		reply, err = do(args)
	}
	if err != nil && !errors.Is(err, errUnacknowledged) {
		return nil, err
	}
	list, isList := reply.([]any)
	if !isList {
		list = []any{reply}
	}
	return list, err
}

// firstKey is the index of KEYS[1] in the whole command.
const firstKey = 3

func (s *server) do(ctx context.Context, args []any) (any, error) {
	cmd := once{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(firstKey) // decides on a cluster's node
	_ = s.client.Process(ctx, cmd)
	s.failed(ctx, cmd.Err())
	return cmd.Result()
}

// call is a batch on its way to admit.lua.
type call struct {
	keys admkey.Keys
	seen seen
	// bound is how many orders may be on their way, expiry when the call may not act
	// any more, in ms of the server's clock.
	bound, expiry int64
	batch         []*ride
}

// seen is what this process knows of an epoch. Whatever it has seen stays true unless
// Redis forgets.
type seen struct {
	epoch, seq, back int64
	// user and order are the last that was seen accepted; 0 for none.
	user, order int64
}

// verdict is admit.lua's on a whole call.
type verdict int64

const (
	decided verdict = iota
	closed
	forgotten
	late
)

// answer is admit.lua's reply.
type answer struct {
	verdict               verdict
	now, seq, stock, back int64
	states                string
}

// firstPair is the index of ARGV[9] in the whole command.
const firstPair = 6 + 8

func (s *server) decide(ctx context.Context, c *call) (answer, error) {
	user, last := "", ""
	if c.seen.order != 0 {
		user, last = strconv.FormatInt(c.seen.user, 10), strconv.FormatInt(c.seen.order, 10)
	}
	traceparent, ended := s.observer.call(c.batch)
	args := make([]any, firstPair, firstPair+2*len(c.batch))
	copy(args[2:], []any{3, c.keys.Meta, c.keys.Users, c.keys.Orders, c.seen.epoch, c.seen.seq, c.seen.back, user, last, c.bound, c.expiry, traceparent})
	for _, r := range c.batch {
		args = append(args, &r.userID, &r.orderID) // a pointer fits into an any as it is
	}
	reply, err := s.runAcknowledged(ctx, s.admit, args)
	if ended != nil {
		ended(err)
	}
	if err != nil && !errors.Is(err, errUnacknowledged) {
		return answer{}, err
	}
	n := numbers(reply)
	switch {
	case len(n) == 2 && len(reply) == 2 && verdict(n[0]) > decided && verdict(n[0]) <= late:
		return answer{verdict: verdict(n[0]), now: n[1]}, nil
	case len(n) == 5 && len(reply) == 6 && verdict(n[0]) == decided:
		states, _ := reply[5].(string)
		if len(states) == len(c.batch) {
			a := answer{now: n[1], seq: n[2], stock: n[3], back: n[4], states: states}
			if !promised(a) {
				err = nil
			}
			return a, err
		}
	}
	return answer{}, strange(reply)
}

// refusal is the error that a letter of a reply stands for.
func refusal(state byte) error {
	switch state {
	case accepted, repeated:
		return nil
	case 'o':
		return order.ErrAlreadyOrdered
	case 'b':
		return voucher.ErrNotStarted
	case 'e':
		return voucher.ErrEnded
	case soldOut:
		return voucher.ErrSoldOut
	case overloaded:
		return order.ErrOverloaded
	}
	return fmt.Errorf("%w: unexpected state %q", order.ErrUnavailable, state)
}

const (
	accepted   = 'a'
	repeated   = 'r'
	soldOut    = 's'
	overloaded = 'w'
)

// shut closes a bucket and returns the epoch that it then has.
func (s *server) shut(ctx context.Context, keys admkey.Keys, epoch int64) (int64, error) {
	return s.number(ctx, s.close, []any{"", "", 1, keys.Meta, epoch})
}

// freshFor is how long users that were prepared and never taken are kept.
const freshFor = time.Hour

// users are orders that are to be prepared under a key.
type users struct {
	key    string
	orders []order.Order
}

// fill puts orders into the users that are prepared, those of all buckets at once.
func (s *server) fill(ctx context.Context, parts []users) error {
	line := s.client.Pipeline()
	for _, p := range parts {
		pairs := make([]any, 0, 2*len(p.orders))
		for _, o := range p.orders {
			pairs = append(pairs, o.UserID, o.ID)
		}
		line.HSet(ctx, p.key, pairs...)
		line.Expire(ctx, p.key, freshFor)
	}
	_, err := line.Exec(ctx)
	return err
}

func (s *server) number(ctx context.Context, sc script, args []any) (int64, error) {
	reply, err := s.run(ctx, sc, args)
	if err != nil {
		return 0, err
	}
	if n := numbers(reply); len(n) == 1 {
		return n[0], nil
	}
	return 0, strange(reply)
}

// numbers are those that a reply begins with.
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

// harmless says that a call that failed with err changed nothing, and never will: it
// did not reach the server, or the server refused it as a whole.
func harmless(err error) bool {
	if errors.Is(err, errUnacknowledged) {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, isReply := errors.AsType[redis.Error](err)
	return isReply || errors.Is(err, redis.ErrPoolTimeout)
}

func strange(reply any) error {
	return fmt.Errorf("%w: unexpected reply %v", order.ErrUnavailable, reply)
}
