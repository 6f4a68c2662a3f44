package fulfil

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
)

// inbox is what the workers ask of Redis.
type inbox interface {
	// prepare makes sure that the stream has its group.
	prepare(ctx context.Context, s *stream) error
	// fresh delivers entries to a consumer that nobody has had yet, up to count of each
	// stream, and waits for the first one as long as block. With an error it may have
	// delivered more than it returns; with a [readError] the other streams are well.
	fresh(ctx context.Context, consumer string, streams []*stream, count int, block time.Duration) ([]entry, error)
	// held delivers again what a consumer has, from after an entry on.
	held(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error)
	// claim takes entries over that whoever has them has had for idle. It goes on from a
	// cursor, and returns the next one: "0-0" where it is through.
	claim(ctx context.Context, consumer string, s *stream, idle time.Duration, cursor string, count int) (entries []entry, next string, err error)
	// done takes entries out of their streams, and tells who waits for their orders. Each
	// part is of one stream, and has its own error.
	done(ctx context.Context, parts [][]entry) []error
	// bury moves an entry to the dead letters, and with give returns what e.order
	// reserved. It reports whether it was the one to do so.
	bury(ctx context.Context, e entry, give bool, reason Reason, detail string) (bool, error)
	// attempt adds to the count of an entry's attempts, and returns it.
	attempt(ctx context.Context, e entry, by int64) (int64, error)
	// reservation finds the order for which a malformed entry took a piece, by what can
	// be read of it.
	reservation(ctx context.Context, e entry) (order.Accepted, bool, error)
	// lengths counts the entries of streams, and says how long the oldest of all has been
	// there. With an error it has counted those that it could.
	lengths(ctx context.Context, all []*stream) (entries map[*stream]int64, oldest time.Duration, err error)
	// idlers lists the consumers that hold nothing and have not been heard of for long.
	idlers(ctx context.Context, s *stream, idle time.Duration) ([]string, error)
	// leave takes a consumer off the group unless it holds entries.
	leave(ctx context.Context, consumer string, s *stream) error
}

// streams is the [inbox] in Redis.
type streams struct {
	client redis.UniversalClient
	// apart: one command cannot read the streams of several vouchers, which lie in
	// different slots of a cluster.
	apart bool

	doneScript, buryScript, leaveScript *redis.Script
}

var _ inbox = (*streams)(nil)

func newStreams(client redis.UniversalClient) *streams {
	_, cluster := client.(*redis.ClusterClient)
	return &streams{
		client: client, apart: cluster, doneScript: redis.NewScript(doneText),
		buryScript: redis.NewScript(buryText), leaveScript: redis.NewScript(leaveText),
	}
}

//go:embed done.lua
var doneText string

//go:embed bury.lua
var buryText string

//go:embed leave.lua
var leaveText string

func (r *streams) prepare(ctx context.Context, s *stream) error {
	err := r.client.XGroupCreateMkStream(ctx, s.keys.Orders, admkey.Group, "0").Err()
	if err == nil || redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return fmt.Errorf("make the consumer group: %w", err)
}

func (r *streams) fresh(ctx context.Context, consumer string, all []*stream, count int, block time.Duration) ([]entry, error) {
	if r.apart && len(all) > 1 {
		return r.poll(ctx, consumer, all, count, block)
	}
	args := &redis.XReadGroupArgs{Group: admkey.Group, Consumer: consumer, Count: int64(count), Block: block}
	args.Streams = make([]string, 2*len(all))
	for i, s := range all {
		args.Streams[i], args.Streams[len(all)+i] = s.keys.Orders, ">"
	}
	found, err := r.client.XReadGroup(ctx, args).Result()
	_, refused := errors.AsType[redis.Error](err)
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case refused && len(all) > 1:
		// What is wrong with one of them keeps the command from reading any.
		return r.poll(ctx, consumer, all, count, 0)
	case err != nil:
		return nil, fmt.Errorf("read accepted orders: %w", err)
	}
	return entriesOf(all, found), nil
}

// firstPoll is how soon a poll that found nothing is repeated; the pause doubles.
const firstPoll = 2 * time.Millisecond

// readError is the error of some of the streams.
type readError struct {
	of  []*stream
	err error
}

// Error implements error.
func (e *readError) Error() string { return e.err.Error() }

// Unwrap is for [errors.Is].
func (e *readError) Unwrap() error { return e.err }

// poll reads streams one by one, all of them in one round trip to each node.
// Nothing can wait in several slots at once, so what waits here is a timer.
func (r *streams) poll(ctx context.Context, consumer string, all []*stream, count int, block time.Duration) ([]entry, error) {
	end := time.Now().Add(block)
	for rest := firstPoll; ; rest *= 2 {
		pipe := r.client.Pipeline()
		replies := make([]*redis.XStreamSliceCmd, len(all))
		for i, s := range all {
			replies[i] = pipe.XReadGroup(ctx, &redis.XReadGroupArgs{
				Group: admkey.Group, Consumer: consumer, Count: int64(count), Block: -1, Streams: []string{s.keys.Orders, ">"},
			})
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		var entries []entry
		var failed *readError
		for i, reply := range replies {
			switch err := reply.Err(); {
			case err == nil:
				entries = append(entries, entriesOf(all[i:i+1], reply.Val())...)
			case !errors.Is(err, redis.Nil):
				if failed == nil {
					failed = &readError{err: fmt.Errorf("read accepted orders: %w", err)}
				}
				failed.of = append(failed.of, all[i])
			}
		}
		switch {
		case failed != nil:
			return entries, failed
		case len(entries) > 0 || time.Until(end) < rest || !sleep(ctx, rest):
			return entries, nil
		}
	}
}

func (r *streams) held(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error) {
	found, err := r.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: admkey.Group, Consumer: consumer, Count: int64(count), Block: -1, Streams: []string{s.keys.Orders, after},
	}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read what is held: %w", err)
	}
	entries := entriesOf([]*stream{s}, found)
	return entries, r.countDeliveries(ctx, consumer, entries)
}

func (r *streams) claim(ctx context.Context, consumer string, s *stream, idle time.Duration, cursor string, count int) ([]entry, string, error) {
	found, next, err := r.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: s.keys.Orders, Group: admkey.Group, Consumer: consumer, MinIdle: idle, Start: cursor, Count: int64(count),
	}).Result()
	if err != nil {
		return nil, "", fmt.Errorf("claim: %w", err)
	}
	entries := make([]entry, len(found))
	for i, m := range found {
		entries[i] = parse(s, m.ID, m.Values)
	}
	return entries, next, r.countDeliveries(ctx, consumer, entries)
}

// countDeliveries notes how often entries of one stream, which a consumer has, were
// delivered.
func (r *streams) countDeliveries(ctx context.Context, consumer string, entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	pending, err := r.client.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: entries[0].keys.Orders, Group: admkey.Group, Consumer: consumer,
		Start: entries[0].id, End: entries[len(entries)-1].id, Count: int64(len(entries)),
	}).Result()
	if err != nil {
		return fmt.Errorf("count deliveries: %w", err)
	}
	times := make(map[string]int64, len(pending))
	for _, p := range pending {
		times[p.ID] = p.RetryCount
	}
	for i := range entries {
		entries[i].deliveries = times[entries[i].id]
	}
	return nil
}

func (r *streams) done(ctx context.Context, parts [][]entry) []error {
	errs := make([]error, len(parts))
	asked := make([]*redis.Cmd, len(parts))
	if len(parts) > 1 { // all in one round trip to each node
		pipe := r.client.Pipeline()
		for i, part := range parts {
			keys, args := doneArgs(part)
			asked[i] = r.doneScript.EvalSha(ctx, pipe, keys, args...)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
	}
	for i, part := range parts {
		if asked[i] == nil || redis.HasErrorPrefix(asked[i].Err(), "NOSCRIPT") {
			keys, args := doneArgs(part)
			asked[i] = r.doneScript.Run(ctx, r.client, keys, args...)
		}
		if err := asked[i].Err(); err != nil {
			errs[i] = fmt.Errorf("acknowledge: %w", err)
		}
	}
	return errs
}

// doneArgs are the script's for entries of one stream.
func doneArgs(entries []entry) (keys []string, args []any) {
	s := entries[0].stream
	args = make([]any, 3, 3+len(entries))
	var orders strings.Builder
	for _, e := range entries {
		if e.order.OrderID != 0 {
			orders.WriteString(strconv.FormatInt(e.order.OrderID, 10))
			orders.WriteByte(' ')
		}
		args = append(args, e.id)
	}
	args[0], args[1], args[2] = admkey.Group, s.done, strings.TrimSuffix(orders.String(), " ")
	return []string{s.keys.Orders, s.tries}, args
}

func (r *streams) bury(ctx context.Context, e entry, give bool, reason Reason, detail string) (bool, error) {
	user, reserved := "", ""
	if give {
		user, reserved = strconv.FormatInt(e.order.UserID, 10), strconv.FormatInt(e.order.OrderID, 10)
	}
	buried, err := r.buryScript.Run(ctx, r.client,
		[]string{e.keys.Orders, e.keys.Meta, e.keys.Users, e.keys.Dead, e.tries},
		admkey.Group, e.id, user, reserved, string(reason), detail, e.done).Int64()
	if err != nil {
		return false, fmt.Errorf("bury entry %s: %w", e.id, err)
	}
	return buried > 0, nil
}

// triedFor is how long attempts are remembered. What ends an entry forgets them, but not
// those of a worker that was late.
const triedFor = 24 * time.Hour

func (r *streams) attempt(ctx context.Context, e entry, by int64) (int64, error) {
	both := r.client.Pipeline()
	n := both.HIncrBy(ctx, e.tries, e.id, by)
	both.Expire(ctx, e.tries, triedFor)
	if _, err := both.Exec(ctx); err != nil {
		return 0, fmt.Errorf("count the attempts of entry %s: %w", e.id, err)
	}
	return n.Val(), nil
}

// scanCount is how many reservations are looked at in one step.
const scanCount = 1000

func (r *streams) reservation(ctx context.Context, e entry) (order.Accepted, bool, error) {
	a := e.order
	switch {
	case a.UserID > 0:
		id, err := r.client.HGet(ctx, e.keys.Users, strconv.FormatInt(a.UserID, 10)).Int64()
		if errors.Is(err, redis.Nil) {
			return a, false, nil
		}
		if err != nil {
			return a, false, fmt.Errorf("look for the reservation of entry %s: %w", e.id, err)
		}
		known := a.OrderID == 0 || a.OrderID == id
		a.OrderID = id
		return a, known, nil
	case a.OrderID > 0:
		wanted := strconv.FormatInt(a.OrderID, 10)
		users := r.client.HScan(ctx, e.keys.Users, 0, "", scanCount).Iterator()
		for users.Next(ctx) {
			user := users.Val()
			if users.Next(ctx) && users.Val() == wanted {
				id, err := strconv.ParseInt(user, 10, 64)
				a.UserID = id
				return a, err == nil, nil
			}
		}
		if err := users.Err(); err != nil {
			return a, false, fmt.Errorf("look for the reservation of entry %s: %w", e.id, err)
		}
	}
	return a, false, nil
}

func (r *streams) lengths(ctx context.Context, all []*stream) (map[*stream]int64, time.Duration, error) {
	if len(all) == 0 {
		return nil, 0, nil
	}
	pipe := r.client.Pipeline()
	now := pipe.Time(ctx)
	counts, firsts := make([]*redis.IntCmd, len(all)), make([]*redis.XMessageSliceCmd, len(all))
	for i, s := range all {
		counts[i] = pipe.XLen(ctx, s.keys.Orders)
		firsts[i] = pipe.XRangeN(ctx, s.keys.Orders, "-", "+", 1)
	}
	_, failed := pipe.Exec(ctx) // the first of the commands' errors
	entries := make(map[*stream]int64, len(all))
	var oldest time.Duration
	for i, s := range all {
		if counts[i].Err() == nil {
			entries[s] = counts[i].Val()
		}
		for _, first := range firsts[i].Val() {
			oldest = max(oldest, now.Val().Sub(time.UnixMilli(idTime(first.ID))))
		}
	}
	if failed != nil {
		return entries, 0, fmt.Errorf("measure the streams: %w", failed)
	}
	return entries, oldest, nil
}

func (r *streams) idlers(ctx context.Context, s *stream, idle time.Duration) ([]string, error) {
	consumers, err := r.client.XInfoConsumers(ctx, s.keys.Orders, admkey.Group).Result()
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	var names []string
	for _, c := range consumers {
		if c.Pending == 0 && c.Idle >= idle {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

func (r *streams) leave(ctx context.Context, consumer string, s *stream) error {
	err := r.leaveScript.Run(ctx, r.client, []string{s.keys.Orders}, admkey.Group, consumer).Err()
	if err != nil && !redis.HasErrorPrefix(err, "NOGROUP") {
		return fmt.Errorf("leave the consumer group: %w", err)
	}
	return nil
}

// entriesOf reads what was delivered of some streams.
func entriesOf(all []*stream, found []redis.XStream) []entry {
	n := 0
	for i := range found {
		n += len(found[i].Messages)
	}
	if n == 0 {
		return nil
	}
	byKey := make(map[string]*stream, len(all))
	for _, s := range all {
		byKey[s.keys.Orders] = s
	}
	entries := make([]entry, 0, n)
	for i := range found {
		for _, m := range found[i].Messages {
			entries = append(entries, parse(byKey[found[i].Stream], m.ID, m.Values))
		}
	}
	return entries
}
