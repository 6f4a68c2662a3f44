package flawed

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Queue is [FirstCome]: a visitor who asks gets the next place, and the same one when asking again. All that it knows is
// in Redis.
type Queue struct {
	client       redis.UniversalClient
	count, users string
}

// OpenQueue returns the queue whose keys have a name.
func OpenQueue(client redis.UniversalClient, name string) Queue {
	return Queue{client, name + ":count", name + ":users"}
}

// Place returns the place of a user, from 1.
func (q Queue) Place(ctx context.Context, user int64) (int64, error) {
	field := strconv.FormatInt(user, 10)
	if place, err := q.client.HGet(ctx, q.users, field).Int64(); err == nil {
		return place, nil
	} else if !errors.Is(err, redis.Nil) {
		return 0, wrapped(err)
	}
	place, err := q.client.Incr(ctx, q.count).Result()
	if err != nil {
		return 0, wrapped(err)
	}
	return place, wrapped(q.client.HSet(ctx, q.users, field, place).Err())
}

// Close deletes all keys.
func (q Queue) Close(ctx context.Context) error {
	return wrapped(q.client.Del(ctx, q.count, q.users).Err())
}

// Window is [OwnWindow]: it admits so many in each second, and the second is that of the process.
type Window struct {
	client redis.UniversalClient
	name   string
	rate   int64
	now    func() time.Time
}

// OpenWindow returns the window of a process with a clock. All processes of one name count together.
func OpenWindow(client redis.UniversalClient, name string, rate int64, now func() time.Time) Window {
	return Window{client, name, rate, now}
}

// Admit reports whether one more may come in.
func (w Window) Admit(ctx context.Context) (bool, error) {
	key := fmt.Sprintf("%s:%d", w.name, w.now().Unix())
	n, err := w.client.Incr(ctx, key).Result()
	if err == nil {
		err = w.client.Expire(ctx, key, time.Minute).Err()
	}
	return n <= w.rate, wrapped(err)
}

// BearerPasses are [BearerPass]: passes that say for what they are and until when, and not for whom.
type BearerPasses struct{ Key []byte }

// Pass returns one.
func (p BearerPasses) Pass(voucherID int64, until time.Time) string {
	content := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(voucherID)), uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(content, p.mac(content)...))
}

// Accepts reports whether a pass is genuine, and not over.
func (p BearerPasses) Accepts(pass string, voucherID int64, now time.Time) bool {
	const size = 16
	all, err := base64.RawURLEncoding.DecodeString(pass)
	if err != nil || len(all) < size || !hmac.Equal(all[size:], p.mac(all[:size])) {
		return false
	}
	return binary.BigEndian.Uint64(all) == uint64(voucherID) && now.Unix() <= int64(binary.BigEndian.Uint64(all[8:]))
}

func (p BearerPasses) mac(content []byte) []byte {
	mac := hmac.New(sha256.New, p.Key)
	mac.Write(content)
	return mac.Sum(nil)
}

// Pace is [RateOnly]: up to which place it calls follows from the time alone.
type Pace struct {
	Began time.Time
	Rate  int64 // a second
}

// Serving returns up to which place visitors are called.
func (p Pace) Serving(now time.Time) int64 {
	return int64(now.Sub(p.Began).Seconds() * float64(p.Rate))
}

// Holds are [CalledHolds]: a call keeps a unit for a place, until its visitor orders or the time to do so is over.
type Holds struct {
	keep    time.Duration
	now     func() time.Time
	serving int64
	until   map[int64]time.Time // by place
}

// OpenHolds returns holds that last so long by a clock.
func OpenHolds(keep time.Duration, now func() time.Time) *Holds {
	return &Holds{keep: keep, now: now, until: map[int64]time.Time{}}
}

// Call calls a place for each unit that is left and not kept, of so many places, and returns up to which one it has called.
func (h *Holds) Call(left, places int64) (serving int64) {
	var kept int64
	for _, until := range h.until {
		if h.now().Before(until) {
			kept++
		}
	}
	for ; kept < left && h.serving < places; kept++ {
		h.serving++
		h.until[h.serving] = h.now().Add(h.keep)
	}
	return h.serving
}

// Ordered ends the hold of a place.
func (h *Holds) Ordered(place int64) { delete(h.until, place) }
