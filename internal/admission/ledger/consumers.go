package ledger

import (
	"context"
	_ "embed" // the scripts
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
)

var (
	//go:embed ensure_group.lua
	ensureGroupSource string
	//go:embed acknowledge.lua
	acknowledgeSource string
	//go:embed split.lua
	splitSource string
	//go:embed dead_letter.lua
	deadLetterSource string
	//go:embed attempt.lua
	attemptSource string
	//go:embed remove_consumer.lua
	removeConsumerSource string
)

// Consumers runs the scripts of the consumers that persist accepted orders. They are sent as the client is configured
// to, repetitions and redirections of a cluster included: each of them may be executed twice.
type Consumers struct {
	ensureGroup, acknowledge, split, deadLetter, attempt, removeConsumer *redis.Script
	generation                                                           func() int64
}

// NewConsumers returns the scripts, for a generation of the pair of database and Redis. They take nothing out of a
// bucket that was closed or opened under a later generation.
func NewConsumers(generation func() int64) *Consumers {
	return &Consumers{
		generation:  generation,
		ensureGroup: redis.NewScript(ensureGroupSource), acknowledge: redis.NewScript(acknowledgeSource),
		split:      redis.NewScript(splitSource),
		deadLetter: redis.NewScript(deadLetterSource), attempt: redis.NewScript(attemptSource),
		removeConsumer: redis.NewScript(removeConsumerSource),
	}
}

// EnsureGroup makes sure that the stream of accepted orders has its group. It reports false if Redis does not hold the
// voucher.
func (c *Consumers) EnsureGroup(ctx context.Context, client redis.Scripter, keys Keys) (bool, error) {
	n, err := c.ensureGroup.Run(ctx, client, []string{keys.Orders, keys.Meta}, Group).Int64()
	return n == 1, err
}

// Acknowledgement is for entries of one stream whose orders are persisted.
type Acknowledgement struct {
	keys    []string
	channel string
	orders  strings.Builder
	// several are the entries with several orders, each followed by their number; single are the others.
	several, single []any
}

// NewAcknowledgement returns an empty one. The ids of the orders are published on a channel, see [FinalChannel].
func NewAcknowledgement(keys Keys, channel string) *Acknowledgement {
	return &Acknowledgement{keys: []string{keys.Orders, keys.Tries, keys.Meta}, channel: channel}
}

// Add adds an entry. It has one order or more, or none that could be read.
func (a *Acknowledgement) Add(entryID string, orders int) {
	if orders > 1 {
		a.several = append(a.several, entryID, orders)
	} else {
		a.single = append(a.single, entryID)
	}
}

// Publish adds the id of an order.
func (a *Acknowledgement) Publish(orderID int64) {
	if a.orders.Len() > 0 {
		a.orders.WriteByte(' ')
	}
	a.orders.WriteString(strconv.FormatInt(orderID, 10))
}

func (a *Acknowledgement) args(generation int64) []any {
	args := append(make([]any, 0, 5+len(a.several)+len(a.single)), Group, a.channel, a.orders.String(), len(a.several)/2, generation)
	return append(append(args, a.several...), a.single...)
}

// Acknowledge takes entries out of their stream and publishes the ids of their orders.
func (c *Consumers) Acknowledge(ctx context.Context, client redis.Scripter, a *Acknowledgement) error {
	return c.acknowledge.Run(ctx, client, a.keys, a.args(c.generation())...).Err()
}

// QueueAcknowledge does what Acknowledge does, in a pipeline. If the server does not know the script, the command fails
// with NOSCRIPT (see [redisscript.Missing]).
func (c *Consumers) QueueAcknowledge(ctx context.Context, pipe redis.Scripter, a *Acknowledgement) *redis.Cmd {
	return c.acknowledge.EvalSha(ctx, pipe, a.keys, a.args(c.generation())...)
}

// Split replaces an entry with several orders by one for each of them. Nothing happens where the entry is gone.
func (c *Consumers) Split(ctx context.Context, client redis.Scripter, keys Keys, entryID string) error {
	return c.split.Run(ctx, client, []string{keys.Orders, keys.Meta, keys.Tries}, Group, entryID, c.generation()).Err()
}

// Rejection is an entry that is to be moved to the dead letters.
type Rejection struct {
	Keys    Keys
	Channel string // see [FinalChannel]
	Entry   string // the entry's id
	// User, Order, Key and Late are the reservation to give back. Order is 0 where there is none.
	User, Order    int64
	Key            order.KeyHash
	Late           bool
	Reason, Detail string
}

// DeadLetter moves an entry to the dead letters and gives its reservation back. It reports false where the entry is
// gone, because another consumer was faster.
func (c *Consumers) DeadLetter(ctx context.Context, client redis.Scripter, r *Rejection) (bool, error) {
	user, reserved := "", ""
	if r.Order != 0 {
		user, reserved = strconv.FormatInt(r.User, 10), reservedAs(r.Late, r.Order, r.Key)
	}
	n, err := c.deadLetter.Run(ctx, client,
		[]string{r.Keys.Orders, r.Keys.Meta, r.Keys.Users, r.Keys.Dead, r.Keys.Tries},
		Group, r.Entry, user, reserved, r.Reason, r.Detail, r.Channel, c.generation()).Int64()
	return n > 0, err
}

// attemptsTTL is the time to live of the record of attempts. Deleting an entry deletes its record, but a late worker
// may begin an attempt afterwards.
const attemptsTTL = 24 * time.Hour

// BeginAttempt records that a process, whose name has no spaces, is about to write an entry alone. It returns the other
// processes that have begun such an attempt and not ended it.
func (c *Consumers) BeginAttempt(ctx context.Context, client redis.Scripter, keys Keys, entryID, process string) (others []string, err error) {
	return c.attempt.Run(ctx, client, []string{keys.Tries}, entryID, process, int64(attemptsTTL/time.Second)).StringSlice()
}

// EndAttempt records that a process's attempt to write an entry alone has ended, if it had begun one.
func (c *Consumers) EndAttempt(ctx context.Context, client redis.Scripter, keys Keys, entryID, process string) error {
	return c.attempt.Run(ctx, client, []string{keys.Tries}, entryID, process, 0).Err()
}

// RemoveConsumer takes a consumer out of the group, unless entries are pending under its name.
func (c *Consumers) RemoveConsumer(ctx context.Context, client redis.Scripter, keys Keys, consumer string) error {
	err := c.removeConsumer.Run(ctx, client, []string{keys.Orders}, Group, consumer).Err()
	if redis.HasErrorPrefix(err, "NOGROUP") {
		return nil
	}
	return err
}
