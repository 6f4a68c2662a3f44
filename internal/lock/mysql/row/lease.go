package row

import (
	"context"
	"fmt"
	"strings"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/lock/watchdog"
)

// lease makes a lease of a row, and puts it under watch where it has an end.
func (l *Locker) lease(ctx context.Context, h *hold, began time.Time) *lock.Held {
	grant := lock.Grant{
		Key: h.key, Owner: h.owner,
		Release: func(ctx context.Context) error { return l.release(ctx, h) },
	}
	if h.ttl == 0 {
		return lock.NewHeld(ctx, grant)
	}
	grant.Until = watchdog.Until(began, h.ttl)
	grant.Stop = func() { l.watchdog.Forget(&h.dog) }
	grant.Extend = func(ctx context.Context, ttl time.Duration) (time.Time, error) { return l.extend(ctx, h, ttl) }
	if !h.renewed {
		grant.TTL = h.ttl
	}
	held := lock.NewHeld(ctx, grant)
	h.dog = watchdog.Lease[*hold]{Held: held, Start: began, TTL: h.ttl, Renewed: h.renewed, Of: h}
	l.watchdog.Watch(&h.dog)
	return held
}

// release deletes the row by its id, and where that finds nothing says why. When a
// release before this one had no answer and the lease cannot have run out, it was
// that one that got through.
func (l *Locker) release(ctx context.Context, h *hold) error {
	deleted, err := l.delete(ctx, h, true)
	switch {
	case err != nil:
		h.unknown = true
		return mysqlio.Error(ctx, err)
	case deleted || h.unknown && (h.ttl == 0 || h.dog.Held.Remaining() > 0):
		return nil
	}
	if _, err := l.delete(ctx, h, false); err != nil { // its own, expired
		return mysqlio.Error(ctx, err)
	}
	return l.verdict(ctx, h)
}

// verdict is what became of a row that is no longer this acquisition's.
func (l *Locker) verdict(ctx context.Context, h *hold) error {
	f, err := l.find(ctx, h.key)
	switch {
	case err != nil:
		return mysqlio.Error(ctx, err)
	case f.holder != "" && f.holder != h.id && f.left > 0:
		return fmt.Errorf("%w: %q", lock.ErrLost, h.key)
	}
	return fmt.Errorf("%w: %q", lock.ErrExpired, h.key)
}

// extend gives the row another end. ttl 0 renews it.
func (l *Locker) extend(ctx context.Context, h *hold, ttl time.Duration) (time.Time, error) {
	if ttl == 0 {
		ttl = h.ttl
	}
	began := time.Now()
	n, err := l.prolong(ctx, ttl, h)
	switch {
	case err != nil:
		return time.Time{}, mysqlio.Error(ctx, err)
	case n == 0:
		return time.Time{}, l.verdict(ctx, h)
	}
	until := watchdog.Until(began, ttl)
	l.watchdog.Extended(&h.dog, until)
	return until, nil
}

// prolong lets the rows of holds that have not expired end ttl from now, and counts
// them. Where the server's clock stands still a row may be left out.
func (l *Locker) prolong(ctx context.Context, ttl time.Duration, holds ...*hold) (int64, error) {
	marks := strings.Repeat(", ?", len(holds))[2:]
	args := []any{ttl.Microseconds(), l.mechanism}
	for _, h := range holds {
		args = append(args, []byte(h.key))
	}
	for _, h := range holds {
		args = append(args, h.id)
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

// renew is how the watchdog reaches the server. All leases that it renews have the
// same length, so that one statement renews many; only if it finds fewer rows than
// it should are they looked at one by one.
func (l *Locker) renew(ctx context.Context, batch []*watchdog.Lease[*hold]) []watchdog.Outcome {
	outcomes := make([]watchdog.Outcome, 0, len(batch))
	for len(batch) > 0 {
		n := min(len(batch), maxBatch)
		holds := make([]*hold, n)
		for i, g := range batch[:n] {
			holds[i] = g.Of
		}
		outcomes = append(outcomes, l.renewSome(ctx, holds)...)
		batch = batch[n:]
	}
	return outcomes
}

func (l *Locker) renewSome(ctx context.Context, holds []*hold) []watchdog.Outcome {
	outcomes := make([]watchdog.Outcome, len(holds))
	n, err := l.prolong(ctx, l.config.WatchdogTimeout, holds...)
	if err == nil && n == int64(len(holds)) {
		return outcomes
	}
	for i, h := range holds {
		if err == nil {
			outcomes[i].Err = l.renewOne(ctx, h)
		} else {
			outcomes[i].Err = fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
		}
	}
	return outcomes
}

// renewOne says of one row of a batch whether it was renewed.
func (l *Locker) renewOne(ctx context.Context, h *hold) error {
	f, err := l.find(ctx, h.key)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
	case f.holder == h.id && f.left > 0: // the batch has just done so, or the row would be over
		return nil
	case f.holder != "" && f.holder != h.id && f.left > 0:
		return lock.ErrLost
	}
	return lock.ErrExpired
}
