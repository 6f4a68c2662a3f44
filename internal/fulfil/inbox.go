package fulfil

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
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
	// cluster is the client where it is a cluster's. There one command cannot read several
	// streams, which lie in different slots.
	cluster *redis.ClusterClient
	hung    hung

	doneScript, buryScript, leaveScript *redis.Script
}

var _ inbox = (*streams)(nil)

func newStreams(client redis.UniversalClient) *streams {
	cluster, _ := client.(*redis.ClusterClient)
	return &streams{
		client: client, cluster: cluster, hung: hung{until: map[string]time.Time{}}, doneScript: redis.NewScript(doneText),
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
	_, err := ask(ctx, r, s, patience, func(ctx context.Context) (string, error) {
		return r.client.XGroupCreateMkStream(ctx, s.keys.Orders, admkey.Group, "0").Result()
	})
	if err == nil || redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return fmt.Errorf("make the consumer group: %w", err)
}

func (r *streams) fresh(ctx context.Context, consumer string, all []*stream, count int, block time.Duration) ([]entry, error) {
	if r.cluster != nil && len(all) > 1 {
		return r.poll(ctx, consumer, all, count, block)
	}
	args := &redis.XReadGroupArgs{Group: admkey.Group, Consumer: consumer, Count: int64(count), Block: block}
	args.Streams = make([]string, 2*len(all))
	for i, s := range all {
		args.Streams[i], args.Streams[len(all)+i] = s.keys.Orders, ">"
	}
	found, err := ask(ctx, r, all[0], block+patience, func(ctx context.Context) ([]redis.XStream, error) {
		return r.client.XReadGroup(ctx, args).Result()
	})
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

// poll reads streams one by one, all of them in one round trip to each node, none of
// which waits for another one. Nothing can wait in several slots at once, so what waits here is a timer.
func (r *streams) poll(ctx context.Context, consumer string, all []*stream, count int, block time.Duration) ([]entry, error) {
	end := time.Now().Add(block)
	for rest := firstPoll; ; rest *= 2 {
		replies := make([]*redis.XStreamSliceCmd, len(all))
		errs := r.eachNode(ctx, all, func(ctx context.Context, pipe redis.Pipeliner, part []int) {
			for _, i := range part {
				replies[i] = pipe.XReadGroup(ctx, &redis.XReadGroupArgs{
					Group: admkey.Group, Consumer: consumer, Count: int64(count), Block: -1, Streams: []string{all[i].keys.Orders, ">"},
				})
			}
		})
		var entries []entry
		var failed *readError
		for i, reply := range replies {
			err := errs[i]
			if err == nil {
				err = reply.Err()
			}
			switch {
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
	found, err := ask(ctx, r, s, patience, func(ctx context.Context) ([]redis.XStream, error) {
		return r.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: admkey.Group, Consumer: consumer, Count: int64(count), Block: -1, Streams: []string{s.keys.Orders, after},
		}).Result()
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read what is held: %w", err)
	}
	entries := entriesOf([]*stream{s}, found)
	return entries, r.countDeliveries(ctx, consumer, entries)
}

func (r *streams) claim(ctx context.Context, consumer string, s *stream, idle time.Duration, cursor string, count int) ([]entry, string, error) {
	var next string
	found, err := ask(ctx, r, s, patience, func(ctx context.Context) (found []redis.XMessage, err error) {
		found, next, err = r.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: s.keys.Orders, Group: admkey.Group, Consumer: consumer, MinIdle: idle, Start: cursor, Count: int64(count),
		}).Result()
		return found, err
	})
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
	pending, err := ask(ctx, r, entries[0].stream, patience, func(ctx context.Context) ([]redis.XPendingExt, error) {
		return r.client.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: entries[0].keys.Orders, Group: admkey.Group, Consumer: consumer,
			Start: entries[0].id, End: entries[len(entries)-1].id, Count: int64(len(entries)),
		}).Result()
	})
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
	asked, errs := make([]*redis.Cmd, len(parts)), make([]error, len(parts))
	if len(parts) > 1 { // all in one round trip to each node
		all := make([]*stream, len(parts))
		for i, part := range parts {
			all[i] = part[0].stream
		}
		errs = r.eachNode(ctx, all, func(ctx context.Context, pipe redis.Pipeliner, some []int) {
			for _, i := range some {
				keys, args := doneArgs(parts[i])
				asked[i] = r.doneScript.EvalSha(ctx, pipe, keys, args...)
			}
		})
	}
	for i, part := range parts {
		err := errs[i]
		if err == nil && asked[i] != nil {
			err = asked[i].Err()
		}
		if asked[i] == nil && err == nil || redis.HasErrorPrefix(err, "NOSCRIPT") {
			keys, args := doneArgs(part)
			_, err = ask(ctx, r, part[0].stream, patience, func(ctx context.Context) (any, error) {
				return r.doneScript.Run(ctx, r.client, keys, args...).Result()
			})
		}
		if err != nil {
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
	buried, err := ask(ctx, r, e.stream, patience, func(ctx context.Context) (int64, error) {
		return r.buryScript.Run(ctx, r.client,
			[]string{e.keys.Orders, e.keys.Meta, e.keys.Users, e.keys.Dead, e.tries},
			admkey.Group, e.id, user, reserved, string(reason), detail, e.done).Int64()
	})
	if err != nil {
		return false, fmt.Errorf("bury entry %s: %w", e.id, err)
	}
	return buried > 0, nil
}

// triedFor is how long attempts are remembered. What ends an entry forgets them, but not
// those of a worker that was late.
const triedFor = 24 * time.Hour

func (r *streams) attempt(ctx context.Context, e entry, by int64) (int64, error) {
	n, err := ask(ctx, r, e.stream, patience, func(ctx context.Context) (int64, error) {
		both := r.client.Pipeline()
		n := both.HIncrBy(ctx, e.tries, e.id, by)
		both.Expire(ctx, e.tries, triedFor)
		_, err := both.Exec(ctx)
		return n.Val(), err
	})
	if err != nil {
		return 0, fmt.Errorf("count the attempts of entry %s: %w", e.id, err)
	}
	return n, nil
}

// scanCount is how many reservations are looked at in one step.
const scanCount = 1000

func (r *streams) reservation(ctx context.Context, e entry) (order.Accepted, bool, error) {
	a := e.order
	switch {
	case a.UserID > 0:
		id, err := ask(ctx, r, e.stream, patience, func(ctx context.Context) (int64, error) {
			return r.client.HGet(ctx, e.keys.Users, strconv.FormatInt(a.UserID, 10)).Int64()
		})
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
		user, known, err := r.userOf(ctx, e)
		if err != nil {
			return a, false, fmt.Errorf("look for the reservation of entry %s: %w", e.id, err)
		}
		a.UserID = user
		return a, known, nil
	}
	return a, false, nil
}

// userOf finds the user for whose order a piece was taken.
func (r *streams) userOf(ctx context.Context, e entry) (int64, bool, error) {
	wanted := strconv.FormatInt(e.order.OrderID, 10)
	for cursor := uint64(0); ; {
		users, err := ask(ctx, r, e.stream, patience, func(ctx context.Context) (users []string, err error) {
			users, cursor, err = r.client.HScan(ctx, e.keys.Users, cursor, "", scanCount).Result()
			return users, err
		})
		if err != nil {
			return 0, false, err
		}
		for pair := range slices.Chunk(users, 2) {
			if len(pair) == 2 && pair[1] == wanted {
				id, err := strconv.ParseInt(pair[0], 10, 64)
				return id, err == nil, nil
			}
		}
		if cursor == 0 {
			return 0, false, nil
		}
	}
}

func (r *streams) leave(ctx context.Context, consumer string, s *stream) error {
	_, err := ask(ctx, r, s, patience, func(ctx context.Context) (any, error) {
		return r.leaveScript.Run(ctx, r.client, []string{s.keys.Orders}, admkey.Group, consumer).Result()
	})
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
