package fulfil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/redisscript"
)

func (r *redisStreams) acknowledge(ctx context.Context, parts [][]entry) []error {
	sent, errs := make([]*redis.Cmd, len(parts)), make([]error, len(parts))
	if len(parts) > 1 { // all of them in one round trip to each node
		streams := make([]*stream, len(parts))
		for i, part := range parts {
			streams[i] = part[0].stream
		}
		errs = r.eachNode(ctx, streams, func(ctx context.Context, pipe redis.Pipeliner, onNode []int) {
			for _, i := range onNode {
				sent[i] = r.scripts.QueueAcknowledge(ctx, pipe, acknowledgement(parts[i]))
			}
		})
	}
	for i, part := range parts {
		err := errs[i]
		if err == nil && sent[i] != nil {
			err = sent[i].Err()
		}
		switch {
		case sent[i] == nil && err == nil || redisscript.Missing(err):
			errs[i] = r.do(ctx, part[0].stream, "acknowledge", func(ctx context.Context) error {
				return r.scripts.Acknowledge(ctx, r.client, acknowledgement(part))
			})
		case err != nil:
			errs[i] = fmt.Errorf("acknowledge: %w", err)
		}
	}
	return errs
}

// acknowledgement returns the arguments of the script for entries of one stream.
func acknowledgement(entries []entry) *ledger.Acknowledgement {
	a := ledger.NewAcknowledgement(entries[0].stream.keys, entries[0].stream.finalChannel)
	for orders := range byID(entries) {
		a.Add(orders[0].id, len(orders))
		for _, e := range orders {
			if e.order.OrderID != 0 {
				a.Publish(e.order.OrderID)
			}
		}
	}
	return a
}

func (r *redisStreams) split(ctx context.Context, e entry) error {
	return r.do(ctx, e.stream, "split entry "+e.id, func(ctx context.Context) error {
		return r.scripts.Split(ctx, r.client, e.stream.keys, e.id)
	})
}

func (r *redisStreams) deadLetter(ctx context.Context, e entry, returnStock bool, reason Reason, detail string) (bool, error) {
	rejection := ledger.Rejection{Keys: e.stream.keys, Channel: e.stream.finalChannel, Entry: e.id, Reason: string(reason), Detail: detail}
	if returnStock {
		rejection.User, rejection.Order, rejection.Key, rejection.Late = e.order.UserID, e.order.OrderID, e.order.Key, e.order.Late
	}
	moved, err := call(ctx, r, e.stream, nodeTimeout, func(ctx context.Context) (bool, error) {
		return r.scripts.DeadLetter(ctx, r.client, &rejection)
	})
	if err != nil {
		return false, fmt.Errorf("move entry %s to the dead letters: %w", e.id, err)
	}
	return moved, nil
}

func (r *redisStreams) beginAttempt(ctx context.Context, e entry, process string) ([]string, error) {
	others, err := call(ctx, r, e.stream, nodeTimeout, func(ctx context.Context) ([]string, error) {
		return r.scripts.BeginAttempt(ctx, r.client, e.stream.keys, e.id, process)
	})
	if err != nil {
		return nil, fmt.Errorf("begin an attempt at entry %s: %w", e.id, err)
	}
	return others, nil
}

func (r *redisStreams) endAttempt(ctx context.Context, e entry, process string) error {
	return r.do(ctx, e.stream, "end an attempt at entry "+e.id, func(ctx context.Context) error {
		return r.scripts.EndAttempt(ctx, r.client, e.stream.keys, e.id, process)
	})
}

func (r *redisStreams) findReservation(ctx context.Context, e entry) (a contract.Accepted, found bool, err error) {
	a = e.order
	user, reserved := a.UserID, ""
	switch {
	case user > 0:
		reserved, err = call(ctx, r, e.stream, nodeTimeout, func(ctx context.Context) (string, error) {
			return r.client.HGet(ctx, e.stream.keys.Users, strconv.FormatInt(user, 10)).Result()
		})
	case a.OrderID > 0:
		user, reserved, err = r.userOf(ctx, e)
	}
	if errors.Is(err, redis.Nil) || err == nil && reserved == "" {
		return a, false, nil
	}
	var id int64
	var key order.KeyHash
	if err == nil {
		id, key, err = ledger.ParseReserved(reserved)
	}
	if err != nil {
		return a, false, fmt.Errorf("find the reservation of entry %s: %w", e.id, err)
	}
	found = a.OrderID == 0 || a.OrderID == id
	a.UserID, a.OrderID, a.Key, a.Late = user, id, key, ledger.IsLate(reserved)
	return a, found, nil
}

// scanCount is the number of reservations per HSCAN.
const scanCount = 1000

// userOf finds the reservation of e's order. It returns "" if there is none.
func (r *redisStreams) userOf(ctx context.Context, e entry) (user int64, reserved string, err error) {
	for cursor := uint64(0); ; {
		users, err := call(ctx, r, e.stream, nodeTimeout, func(ctx context.Context) (users []string, err error) {
			users, cursor, err = r.client.HScan(ctx, e.stream.keys.Users, cursor, "", scanCount).Result()
			return users, err
		})
		if err != nil {
			return 0, "", err
		}
		for pair := range slices.Chunk(users, 2) {
			if len(pair) < 2 {
				continue
			}
			if id, _, err := ledger.ParseReserved(pair[1]); err == nil && id == e.order.OrderID {
				user, err := strconv.ParseInt(pair[0], 10, 64)
				if err != nil {
					return 0, "", nil // a field that no script has written
				}
				return user, pair[1], nil
			}
		}
		if cursor == 0 {
			return 0, "", nil
		}
	}
}

func (r *redisStreams) removeConsumer(ctx context.Context, consumer string, s *stream) error {
	return r.do(ctx, s, "leave the consumer group", func(ctx context.Context) error {
		return r.scripts.RemoveConsumer(ctx, r.client, s.keys, consumer)
	})
}
