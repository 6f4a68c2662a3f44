package ledger

import (
	"context"
	_ "embed" // the scripts
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
)

var (
	//go:embed close.lua
	closeSource string
	//go:embed open.lua
	openSource string
	//go:embed window.lua
	windowSource string
	//go:embed remove.lua
	removeSource string
)

// Close closes a bucket under an odd epoch and returns the epoch that the bucket then has, which may be a later one.
// Where replicas are waited for, they have the closed epoch when Close returns: if one of them is promoted, it accepts
// nothing under the epoch before.
func (l *Ledger) Close(ctx context.Context, keys Keys, epoch int64) (int64, error) {
	return number(l.runAcknowledged(ctx, l.scripts.close, []any{"", "", 1, keys.Meta, epoch, l.generation()}))
}

// PreparedFor is how long users that were prepared for an epoch stay if nobody opens it or discards them, from the
// latest call of Prepare on.
const PreparedFor = 10 * time.Minute

// Users are orders that are to be prepared under a key, see [Keys.PreparedUsers].
type Users struct {
	Key    string
	Orders []order.Order
}

// Prepare adds the users of orders to those with which buckets will be opened.
func (l *Ledger) Prepare(ctx context.Context, users []Users) error {
	pipe := l.client.Pipeline()
	for _, u := range users {
		fields := make([]any, 0, 2*len(u.Orders))
		for _, o := range u.Orders {
			fields = append(fields, o.UserID, Reserved(o.ID, o.Key))
		}
		pipe.HSet(ctx, u.Key, fields...)
		pipe.Expire(ctx, u.Key, PreparedFor)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// Discard removes the users that were prepared for an epoch of a bucket, if the bucket will not be opened under that
// epoch.
func (l *Ledger) Discard(ctx context.Context, keys Keys, epoch int64) error {
	return l.client.Process(ctx, redis.NewIntCmd(ctx, "unlink", keys.PreparedUsers(epoch)))
}

// Opening is the data that a bucket is opened with.
type Opening struct {
	// Epoch is even. The bucket must be closed under the epoch before it.
	Epoch      int64
	Seq, Stock int64
	// Users is how many users were prepared.
	Users int64
	Window
}

// Window is when a voucher is sold.
type Window struct {
	// Begin and End are in ms of the server's clock.
	Begin, End int64
	Paused     bool
	// Revision is that of the voucher that has this window.
	Revision int64
}

func (w *Window) paused() int {
	if w.Paused {
		return 1
	}
	return 0
}

// SetWindow sets when a bucket sells, unless the bucket was told of a later revision. Where replicas are waited for,
// they have it when SetWindow returns.
func (l *Ledger) SetWindow(ctx context.Context, keys Keys, w Window) error {
	_, err := number(l.runAcknowledged(ctx, l.scripts.window, []any{"", "", 1, keys.Meta, w.Revision, w.Begin, w.End, w.paused(), l.generation()}))
	return err
}

// Open opens a bucket with the users that were prepared, and reports whether it did.
func (l *Ledger) Open(ctx context.Context, keys Keys, o Opening) (bool, error) {
	n, err := number(l.run(ctx, l.scripts.open, []any{
		"", "", 3, keys.Meta, keys.Users, keys.PreparedUsers(o.Epoch),
		o.Epoch, o.Epoch - 1, o.Seq, o.Stock, o.Begin, o.End, o.Users, l.generation(), o.paused(), o.Revision,
	}))
	return n == 1, err
}

// Removal is the reply of remove.lua.
type Removal struct {
	Verdict RemovalVerdict
	Keys    int64 // how many keys there were before
}

// RemovalVerdict says what became of a removal.
type RemovalVerdict int64

// The verdicts.
const (
	// Removed: there is nothing left of what was to be removed.
	Removed RemovalVerdict = iota
	// OtherEpoch: the bucket is not closed under the epoch of the call. Nothing was done.
	OtherEpoch
	// StillPending: accepted orders are not persisted yet. Nothing was done.
	StillPending
)

// Remove removes the users of a bucket that was forgotten under an epoch or, with all, all of its keys.
func (l *Ledger) Remove(ctx context.Context, keys Keys, epoch int64, all bool) (Removal, error) {
	everything := 0
	if all {
		everything = 1
	}
	reply, err := l.run(ctx, l.scripts.remove, []any{
		"", "", 5, keys.Meta, keys.Users, keys.Orders, keys.Dead, keys.Tries, epoch, everything,
	})
	if err != nil {
		return Removal{}, err
	}
	n := numbers(reply)
	if len(n) != 2 || RemovalVerdict(n[0]) > StillPending {
		return Removal{}, unexpected(reply)
	}
	return Removal{Verdict: RemovalVerdict(n[0]), Keys: n[1]}, nil
}
