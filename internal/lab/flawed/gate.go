package flawed

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

//go:embed accept.lua
var acceptLua string

var accept = redis.NewScript(acceptLua)

// Gate accepts orders of a voucher in Redis, from which a worker takes them: the parts of which shops put a sale together.
// Whether they make a mistake depends on the order in which a program calls them.
type Gate struct {
	client                       redis.UniversalClient
	stock, users, paused, stream string
}

// OpenGate returns the gate whose keys have a name. All clients of one name are in front of the same gate.
func OpenGate(client redis.UniversalClient, name string) Gate {
	return Gate{client, name + ":stock", name + ":users", name + ":paused", name + ":orders"}
}

// Open puts n units on sale.
func (g Gate) Open(ctx context.Context, n int) error {
	return wrapped(g.client.Set(ctx, g.stock, n, 0).Err())
}

// Pause has [Gate.Accept] refuse everybody.
func (g Gate) Pause(ctx context.Context) error {
	return wrapped(g.client.Set(ctx, g.paused, 1, 0).Err())
}

// Close deletes all keys.
func (g Gate) Close(ctx context.Context) error {
	return wrapped(g.client.Del(ctx, g.stock, g.users, g.paused, g.stream).Err())
}

// Left is the stock in Redis.
func (g Gate) Left(ctx context.Context) (int, error) {
	n, err := g.client.Get(ctx, g.stock).Int()
	return n, wrapped(err)
}

// Take is DECR: it takes a unit for whoever asks, and returns [voucher.ErrSoldOut] if there was none.
func (g Gate) Take(ctx context.Context) error {
	left, err := g.client.Decr(ctx, g.stock).Result()
	if err == nil && left < 0 {
		return voucher.ErrSoldOut
	}
	return wrapped(err)
}

// Accept takes a unit for a user who has no order, and notes the user's order, in one script. It returns
// [voucher.ErrPaused], [voucher.ErrSoldOut], or [order.ErrAlreadyOrdered] and the order that the user has. With send, which is no mistake, the
// script sends the order to the worker, too; without it that is for the caller to do: [MessageApart].
func (g Gate) Accept(ctx context.Context, o order.Order, send bool) (id int64, err error) {
	keys := []string{g.stock, g.users, g.paused}
	if send {
		keys = append(keys, g.stream)
	}
	reply, err := accept.Run(ctx, g.client, keys, o.UserID, o.ID).Slice()
	if err != nil {
		return 0, wrapped(err)
	}
	if id, err = strconv.ParseInt(fmt.Sprint(reply[1]), 10, 64); err != nil {
		return 0, wrapped(err)
	}
	switch reply[0] {
	case "paused":
		return 0, voucher.ErrPaused
	case "sold out":
		return 0, voucher.ErrSoldOut
	case "ordered":
		return id, order.ErrAlreadyOrdered
	}
	return id, nil
}

// Send sends an order to the worker.
func (g Gate) Send(ctx context.Context, o order.Order) error {
	return wrapped(g.client.XAdd(ctx, &redis.XAddArgs{Stream: g.stream, Values: []any{"order", o.ID, "user", o.UserID}}).Err())
}

// Work calls write with each order that was sent since the last time: the user and the order's id.
func (g Gate) Work(ctx context.Context, write func(user, id int64) error) error {
	entries, err := g.client.XRange(ctx, g.stream, "-", "+").Result()
	if err != nil {
		return wrapped(err)
	}
	for _, e := range entries {
		user, err := strconv.ParseInt(fmt.Sprint(e.Values["user"]), 10, 64)
		id, err2 := strconv.ParseInt(fmt.Sprint(e.Values["order"]), 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return wrapped(err)
		}
		if err := write(user, id); err != nil {
			return err
		}
		if err := g.client.XDel(ctx, g.stream, e.ID).Err(); err != nil {
			return wrapped(err)
		}
	}
	return nil
}

func wrapped(err error) error {
	if err != nil {
		return fmt.Errorf("flawed: %w", err)
	}
	return nil
}
