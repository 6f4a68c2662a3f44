package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
)

// bucketInRedis is how one bucket of a voucher stands there, at one moment; -1 for what
// is not there.
type bucketInRedis struct {
	epoch, seq, stock, pending, dead int64
	// lent is what it has given to other buckets, less what it has got of them. To draw
	// changes the stock and this, and not their sum.
	lent int64
}

// standingInRedis is how a voucher stands there: each of its buckets.
type standingInRedis []bucketInRedis

func (s standingInRedis) sum(of func(b bucketInRedis) int64) (n int64) {
	for _, b := range s {
		n += of(b)
	}
	return n
}

// there says whether all buckets are.
func (s standingInRedis) there() bool {
	for _, b := range s {
		if b.stock < 0 {
			return false
		}
	}
	return true
}

// stock is what can be sold, in the buckets and between them.
func (s standingInRedis) stock() int64 {
	return s.sum(func(b bucketInRedis) int64 { return max(0, b.stock) + b.lent })
}

// transit is what has left a bucket and not come to another one yet.
func (s standingInRedis) transit() int64 { return s.sum(func(b bucketInRedis) int64 { return b.lent }) }

func (s standingInRedis) pending() int64 {
	return s.sum(func(b bucketInRedis) int64 { return b.pending })
}

func (s standingInRedis) dead() int64 { return s.sum(func(b bucketInRedis) int64 { return b.dead }) }

// seq counts what was decided in all buckets.
func (s standingInRedis) seq() int64 {
	return s.sum(func(b bucketInRedis) int64 { return max(0, b.seq) })
}

// epoch is that of the bucket that is furthest behind.
func (s standingInRedis) epoch() int64 {
	least := s[0].epoch
	for _, b := range s {
		least = min(least, b.epoch)
	}
	return least
}

// at says whether all buckets are at an epoch, open whether they can be sold from too.
func (s standingInRedis) at(epoch int64) bool {
	for _, b := range s {
		if b.epoch != epoch {
			return false
		}
	}
	return true
}

func (s standingInRedis) open(epoch int64) bool { return s.at(epoch) && s.there() }

// inRedis reads one bucket after the other.
func (r *reconciler) inRedis(ctx context.Context, sale order.Sale) (standingInRedis, error) {
	s := make(standingInRedis, sale.Buckets)
	for b := range s {
		var err error
		if s[b], err = r.bucketInRedis(ctx, admkey.Of(keyPrefix, sale.VoucherID, b)); err != nil {
			return nil, fmt.Errorf("voucher %d, bucket %d: %w", sale.VoucherID, b, err)
		}
	}
	return s, nil
}

// bucketInRedis reads in one transaction, which the keys' common slot allows.
func (r *reconciler) bucketInRedis(ctx context.Context, keys admkey.Keys) (bucketInRedis, error) {
	var meta *redis.MapStringStringCmd
	var pending, dead *redis.IntCmd
	if _, err := r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		meta = p.HGetAll(ctx, keys.Meta)
		pending, dead = p.XLen(ctx, keys.Orders), p.XLen(ctx, keys.Dead)
		return nil
	}); err != nil {
		return bucketInRedis{}, fmt.Errorf("%w: ask Redis: %w", order.ErrUnavailable, err)
	}
	b := bucketInRedis{epoch: -1, seq: -1, stock: -1, pending: pending.Val(), dead: dead.Val()}
	for name, text := range meta.Val() {
		to, from := strings.HasPrefix(name, admkey.To), strings.HasPrefix(name, admkey.From)
		if !to && !from && name != admkey.Epoch && name != admkey.Seq && name != admkey.Stock {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return b, fmt.Errorf("what Redis has as %q: %w", name, err)
		}
		switch {
		case to:
			b.lent += n
		case from:
			b.lent -= n
		case name == admkey.Epoch:
			b.epoch = n
		case name == admkey.Seq:
			b.seq = n
		default:
			b.stock = n
		}
	}
	return b, nil
}
