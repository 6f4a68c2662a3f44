package row

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/lock/watchdog"
)

// lease makes a lease of a row. The watchdog watches it if the row has an expiry.
func (l *Locker) lease(ctx context.Context, a *acquisition, began time.Time) *lock.Held {
	grant := lock.Grant{
		Key: a.key, Owner: a.owner,
		Release: func(ctx context.Context) error { return l.release(ctx, a) },
	}
	if a.ttl == 0 {
		return lock.NewHeld(ctx, grant)
	}
	grant.Until = watchdog.Until(began, a.ttl)
	grant.Stop = func() { l.watchdog.Unwatch(&a.watched) }
	grant.Extend = func(ctx context.Context, ttl time.Duration) (time.Time, error) { return l.extend(ctx, a, ttl) }
	if !a.renewed {
		grant.TTL = a.ttl
	}
	held := lock.NewHeld(ctx, grant)
	a.watched = watchdog.Entry[*acquisition]{Held: held, Start: began, TTL: a.ttl, AutoRenew: a.renewed, Value: a}
	l.watchdog.Watch(&a.watched)
	return held
}

// release gives the row back. If a statement that takes the row may still be carried out, it
// has that one undone too, unless the caller may release again.
func (l *Locker) release(ctx context.Context, a *acquisition) error {
	err := l.deleteHeld(ctx, a)
	if a.late && (err == nil || isOver(err)) {
		l.startUndoLater(a)
	}
	return err
}

func isOver(err error) bool { return errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrLost) }

// deleteHeld deletes the row by its id. If there is no such row it returns the reason. If an
// earlier release got no answer and the lease cannot have run out, that release has
// deleted the row.
func (l *Locker) deleteHeld(ctx context.Context, a *acquisition) error {
	deleted, err := l.delete(ctx, a, true)
	switch {
	case err != nil:
		a.unknown = true
		return mysqlio.Error(ctx, err)
	case deleted || a.unknown && (a.ttl == 0 || a.watched.Held.Remaining() > 0):
		return nil
	}
	if _, err := l.delete(ctx, a, false); err != nil { // its own row, which has expired
		return mysqlio.Error(ctx, err)
	}
	return l.lossReason(ctx, a)
}

// lossReason returns why a row is no longer this acquisition's.
func (l *Locker) lossReason(ctx context.Context, a *acquisition) error {
	f, err := l.find(ctx, a.key)
	switch {
	case err != nil:
		return mysqlio.Error(ctx, err)
	case f.holder != "" && f.holder != a.id && f.left > 0:
		return fmt.Errorf("%w: %q", lock.ErrLost, a.key)
	}
	return fmt.Errorf("%w: %q", lock.ErrExpired, a.key)
}

// extend sets a new end of the row. ttl 0 renews it.
func (l *Locker) extend(ctx context.Context, a *acquisition, ttl time.Duration) (time.Time, error) {
	if ttl == 0 {
		ttl = a.ttl
	}
	began := time.Now()
	n, err := l.prolong(ctx, ttl, a)
	if err == nil && n == 0 {
		err = l.lossReason(ctx, a)
	}
	until := watchdog.Until(began, ttl)
	switch {
	case err == nil:
		l.watchdog.Extended(&a.watched, until)
		return until, nil
	case isOver(err):
		return time.Time{}, err
	}
	// The server may have carried it out, and so have shortened the lease.
	l.watchdog.Shorten(&a.watched, until)
	return time.Time{}, fmt.Errorf("%w: %w", lock.ErrUnavailable, cmp.Or(ctx.Err(), err))
}

// prolong sets the end of the batch's unexpired rows to ttl from now and counts them. If
// the server's clock stands still, the count may omit a row whose end did not change.
func (l *Locker) prolong(ctx context.Context, ttl time.Duration, batch ...*acquisition) (int64, error) {
	marks := strings.Repeat(", ?", len(batch))[2:]
	args := []any{ttl.Microseconds(), l.mechanism}
	for _, a := range batch {
		args = append(args, []byte(a.key))
	}
	for _, a := range batch {
		args = append(args, a.id)
	}
	result, err := l.db.ExecContext(ctx, "UPDATE lock_rows SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"+
		" WHERE mechanism = ? AND name IN ("+marks+") AND holder IN ("+marks+") AND expires_at > UTC_TIMESTAMP(6)", args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// maxBatch is how many leases one statement renews.
const maxBatch = 200

// renew renews leases for the watchdog. They all have the same length, so one statement
// renews many. Only if it changes too few rows, renewOne checks each of them.
func (l *Locker) renew(ctx context.Context, batch []*watchdog.Entry[*acquisition]) []watchdog.Outcome {
	outcomes := make([]watchdog.Outcome, 0, len(batch))
	for len(batch) > 0 {
		n := min(len(batch), maxBatch)
		acquisitions := make([]*acquisition, n)
		for i, g := range batch[:n] {
			acquisitions[i] = g.Value
		}
		outcomes = append(outcomes, l.renewSome(ctx, acquisitions)...)
		batch = batch[n:]
	}
	return outcomes
}

func (l *Locker) renewSome(ctx context.Context, batch []*acquisition) []watchdog.Outcome {
	outcomes := make([]watchdog.Outcome, len(batch))
	n, err := l.prolong(ctx, l.config.WatchdogTimeout, batch...)
	if err == nil && n == int64(len(batch)) {
		return outcomes
	}
	for i, a := range batch {
		if err == nil {
			outcomes[i].Err = l.renewOne(ctx, a)
		} else {
			outcomes[i].Err = fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
		}
	}
	return outcomes
}

// renewOne returns nil if the batch has renewed this row, otherwise why it has not.
func (l *Locker) renewOne(ctx context.Context, a *acquisition) error {
	f, err := l.find(ctx, a.key)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case f.holder == a.id && f.left > 0: // the batch has renewed the row, otherwise it would have expired
		return nil
	case f.holder != "" && f.holder != a.id && f.left > 0:
		return lock.ErrLost
	}
	return lock.ErrExpired
}
