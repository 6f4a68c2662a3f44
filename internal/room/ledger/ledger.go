package ledger

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/redisscript"
	"seckill/internal/room"
)

var (
	//go:embed restore.lua
	restoreSource string
	//go:embed ticket.lua
	ticketSource string
	//go:embed advance.lua
	advanceSource string
	//go:embed claim.lua
	claimSource string
	//go:embed spend.lua
	spendSource string
)

// Client is what the ledger needs of go-redis; any of its clients has it. A command must end with its context, so set
// ContextTimeoutEnabled.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Ledger runs the scripts of the rooms. It is safe for use by several goroutines.
type Ledger struct {
	client                                 Client
	prefix                                 string
	parts                                  uint64
	restore, ticket, advance, claim, spend *redisscript.Script
}

var _ room.Redis = (*Ledger)(nil)

// New returns a ledger on a client. The prefix is that of the installation; parts is the number of hashes that the users of
// a room are kept in, 0 is [DefaultParts]. Every instance has the same.
func New(client Client, prefix string, parts int) *Ledger {
	return &Ledger{
		client: client, prefix: prefix, parts: uint64(cmp.Or(parts, DefaultParts)),
		restore: redisscript.New(restoreSource), ticket: redisscript.New(ticketSource), advance: redisscript.New(advanceSource),
		claim: redisscript.New(claimSource), spend: redisscript.New(spendSource),
	}
}

// DefaultParts is how many hashes the users of a room are kept in. Up to 128 users in each, Redis keeps them in its compact
// form: that is two million visitors.
const DefaultParts = 16_384

// Key is the name of the key of a room.
func Key(prefix string, voucherID int64) string {
	return prefix + "room:{" + strconv.FormatInt(voucherID, 10) + "}"
}

// usersKey is the name of the key of the part of a room's users that a user belongs to.
func (l *Ledger) usersKey(voucherID, userID int64) string {
	// User ids often follow each other: Fibonacci hashing spreads them.
	part := uint64(userID) * 0x9e3779b97f4a7c15 >> 32 % l.parts
	return Key(l.prefix, voucherID) + ":" + strconv.FormatUint(part, 10)
}

// Restore implements [room.Redis].
func (l *Ledger) Restore(ctx context.Context, voucherID int64, born string, r room.Record, keep time.Duration) error {
	_, err := l.run(ctx, l.restore, 1, []string{Key(l.prefix, voucherID)}, born, r.Drawn, r.Reserved, r.Serving, seconds(keep))
	return err
}

// Ticket implements [room.Redis].
func (l *Ledger) Ticket(ctx context.Context, c room.TicketCall) (room.TicketReply, error) {
	shown := ""
	if c.Shown >= 0 {
		shown = strconv.FormatInt(c.Shown, 10)
	}
	keys := append(l.keys(c.VoucherID, c.UserID), Key(l.prefix, c.VoucherID)+":at:"+strconv.FormatUint(c.Address%l.parts, 10))
	reply, err := l.run(ctx, l.ticket, 4, keys, c.UserID, shown, c.Reserved, c.Tickets, seconds(c.Keep), c.Address, c.PerAddress)
	if err != nil {
		return room.TicketReply{}, err
	}
	n, err := numbers(reply, 4)
	if err != nil {
		return room.TicketReply{}, err
	}
	return room.TicketReply{Full: n[0] == 2, AddressFull: n[0] == 3, Number: n[2], Tickets: n[3]}, nil
}

// Advance implements [room.Redis].
func (l *Ledger) Advance(ctx context.Context, c room.AdvanceCall) (room.State, error) {
	calls := 0
	if c.Calls {
		calls = 1
	}
	reply, err := l.run(ctx, l.advance, 13, []string{Key(l.prefix, c.VoucherID)},
		c.Begin, calls, c.Rate, c.Drawn, c.Tickets, c.Serving, c.Reserved, c.Stock.Left, c.Stock.Spent, c.Stock.Born, seconds(c.Keep))
	if err != nil {
		return room.State{}, err
	}
	born, _ := reply[12].(string)
	n, err := numbers(reply, 12)
	if err != nil || born == "" {
		return room.State{}, unexpected(reply)
	}
	return room.State{
		Now: n[1], Tickets: n[2], Drawn: n[3], Serving: n[4], Issued: n[5], Spent: n[6], Lapsed: n[7],
		Share: float64(n[8]) / 1000, Backlog: n[9], Reserved: n[10], Save: n[11] == 1, Born: born,
	}, nil
}

// Claim implements [room.Redis].
func (l *Ledger) Claim(ctx context.Context, c room.ClaimCall) (room.ClaimReply, error) {
	reply, err := l.run(ctx, l.claim, 4, l.keys(c.VoucherID, c.UserID),
		c.UserID, c.Number, c.Rate, c.PassFor.Milliseconds(), c.Stock.Left, c.Stock.Spent, c.Stock.Born, string(c.Known), seconds(c.Keep), grain(c.PassFor))
	if err != nil {
		return room.ClaimReply{}, err
	}
	n, err := numbers(reply, 4)
	if err != nil {
		return room.ClaimReply{}, err
	}
	return room.ClaimReply{Verdict: room.Verdict(n[0]), Until: n[2], Number: n[3]}, nil
}

// underWay is how long an order may be under way, longer than a request and what it has sent may take.
const underWay = 90 * time.Second

// Spend implements [room.Redis].
func (l *Ledger) Spend(ctx context.Context, c room.SpendCall) (room.SpendVerdict, error) {
	reply, err := l.run(ctx, l.spend, 2, l.keys(c.VoucherID, c.Pass.User),
		c.Pass.User, c.Pass.Number, c.Pass.Until, string(c.Verb), "u"+c.Request, seconds(underWay), grain(c.PassFor))
	if err != nil {
		return 0, err
	}
	n, err := numbers(reply, 2)
	if err != nil {
		return 0, err
	}
	return room.SpendVerdict(n[0]), nil
}

// grain is at which multiples passes lapse for the accounts, in s: a room has a hundred fields for them at most.
func grain(passFor time.Duration) int64 { return max(1, (seconds(passFor)+59)/60) }

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func (l *Ledger) keys(voucherID, userID int64) []string {
	return []string{Key(l.prefix, voucherID), l.usersKey(voucherID, userID)}
}

// missing is the verdict of every script that needs a state and finds none.
const missing = 1

// run runs a script with some keys, and returns its reply of n values. The error is [room.ErrMissing] where Redis has no
// state of the room.
func (l *Ledger) run(ctx context.Context, script *redisscript.Script, n int, keys []string, argv ...any) ([]any, error) {
	var reply any
	err := script.Run(ctx, redisscript.Args(keys, argv...), func(cmd redisscript.Cmd) (err error) {
		_ = l.client.Process(ctx, cmd)
		reply, err = cmd.Result()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: the room in Redis: %w", order.ErrUnavailable, err)
	}
	list, isList := reply.([]any)
	switch {
	case !isList && script == l.restore:
		return []any{reply}, nil
	case len(list) > 0 && list[0] == int64(missing):
		return nil, room.ErrMissing
	case len(list) != n:
		return nil, unexpected(reply)
	}
	return list, nil
}

// numbers are the first n values of a reply.
func numbers(reply []any, n int) ([]int64, error) {
	all := make([]int64, n)
	for i := range all {
		one, isNumber := reply[i].(int64)
		if !isNumber {
			return nil, unexpected(reply)
		}
		all[i] = one
	}
	return all, nil
}

func unexpected(reply any) error {
	return fmt.Errorf("%w: unexpected reply %v", order.ErrUnavailable, reply)
}
