package lockjudge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
)

// saleInspector looks into a store about which nothing is known but that the names of the lock's keys contain the name
// of the lock.
type saleInspector struct {
	client *redis.Client
	ignore map[string]bool // keys that are no lock
}

var _ lock.Inspector = (*saleInspector)(nil)

// named returns the keys with the lock's name in theirs, sorted.
func (i *saleInspector) named(ctx context.Context, key string) ([]string, error) {
	all, err := i.client.Keys(ctx, "*").Result()
	names := slices.DeleteFunc(all, func(name string) bool { return !strings.Contains(name, key) || i.ignore[name] })
	slices.Sort(names)
	return names, err
}

// lasting returns the keys that have no end.
func (i *saleInspector) lasting(ctx context.Context, key string) map[string]bool {
	found := map[string]bool{}
	names, _ := i.named(ctx, key) // none are left out then, and the sale goes on
	for _, name := range names {
		if left, err := i.client.PTTL(ctx, name).Result(); err == nil && left == noEnd {
			found[name] = true
		}
	}
	return found
}

// noEnd is what PTTL says of a key without a lease.
const noEnd = -1

// Inspect implements [lock.Inspector]. The value of a key that is a hash is the first of its fields.
func (i *saleInspector) Inspect(ctx context.Context, key string) (lock.State, error) {
	free := lock.State{Waiting: lock.WaitingUnknown}
	names, err := i.named(ctx, key)
	if err != nil {
		return free, err
	}
	for _, name := range names {
		value, err := i.value(ctx, name)
		if err != nil {
			return free, err
		}
		if value == "" {
			continue // it has gone, or it is something else than a lock
		}
		left, err := i.client.PTTL(ctx, name).Result()
		switch {
		case err != nil:
			return free, err
		case left == noEnd:
			left = lock.NoExpiry
		case left < 0: // it has gone meanwhile
			continue
		}
		return lock.State{Owner: lock.Owner(value), Count: 1, TTL: left, Waiting: lock.WaitingUnknown}, nil
	}
	return free, nil
}

// value is what a key of a lock holds; "" if it is none.
func (i *saleInspector) value(ctx context.Context, name string) (string, error) {
	kind, err := i.client.Type(ctx, name).Result()
	if err != nil {
		return "", err
	}
	switch kind {
	case "string":
		value, err := i.client.Get(ctx, name).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return "", err
		}
		return value, nil
	case "hash":
		fields, err := i.client.HGetAll(ctx, name).Result()
		if err != nil || len(fields) == 0 {
			return "", err
		}
		return slices.Sorted(maps.Keys(fields))[0], nil
	}
	return "", nil
}

// inspected is a lock whose store can be looked into. After each grant it looks up under which value the lock is
// stored: no convention says how a value names its holder.
type inspected struct {
	lock.Locker
	*saleInspector
	owners *storedOwners
}

// Acquire implements [lock.Locker].
func (l *inspected) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	held, err := l.Locker.Acquire(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if state, err := l.Inspect(ctx, key); err == nil {
		l.owners.learn(string(state.Owner), string(held.Owner()))
	}
	return held, nil
}

// storedOwners are the owners of stored values. The first holder that finds a value just after its grant has stored it.
type storedOwners struct {
	mu sync.Mutex
	of map[string]string
}

func (o *storedOwners) learn(value, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[string]string{}
	}
	if _, known := o.of[value]; !known && value != "" {
		o.of[value] = owner
	}
}

// any reports whether a holder has found a value.
func (o *storedOwners) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.of) > 0
}

func (o *storedOwners) owner(value string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if owner, known := o.of[value]; known {
		return owner
	}
	return value
}

// translate puts owners in the place of values.
func (o *storedOwners) translate(samples []judge.Sample) []judge.Sample {
	for i := range samples {
		samples[i].Stored.Owner = o.owner(samples[i].Stored.Owner)
	}
	return samples
}

// translateEvents does the same in events.
func (o *storedOwners) translateEvents(events []eventlog.Event) []eventlog.Event {
	for i := range events {
		if events[i].Stored != nil {
			events[i].Stored.Owner = o.owner(events[i].Stored.Owner)
		}
	}
	return events
}
