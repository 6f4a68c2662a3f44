package serve

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/explore"
	"seckill/internal/lock"
)

// ExploreArgument makes a lock's program explore its lock in place of serving it: see [Exploration].
const ExploreArgument = "explore"

// Exploration is what the program of a lock is asked for, on its standard input.
type Exploration struct {
	Name   string         `json:"name"`
	Buyers int            `json:"buyers"`
	Budget explore.Budget `json:"budget"`
	Most   int            `json:"most"`
	For    time.Duration  `json:"for_ns"`
	Sample int            `json:"sample"`
	Seed   uint64         `json:"seed"`
}

// Explored is its answer, on its standard output. Told are the sentences of the first counterexample, step by step.
type Explored struct {
	Result explore.Result `json:"result"`
	Told   []string       `json:"told"`
}

// exploreLock answers one request.
func exploreLock(ctx context.Context, in io.Reader, out io.Writer, renews bool, open New) error {
	var asked Exploration
	if err := json.NewDecoder(in).Decode(&asked); err != nil {
		return err
	}
	m := lock.Mechanism{Name: asked.Name, Store: lock.InRedis, Ends: lock.EndsAfterLease}
	if renews {
		m.Ends = lock.EndsUnlessRenewed
	}
	c := explore.Config{
		Lock: asked.Name, Buyers: asked.Buyers, Budget: asked.Budget, Most: asked.Most, For: asked.For, Sample: asked.Sample, Seed: asked.Seed, Mechanism: m,
		Open: func(clients []*redis.Client) (lock.Locker, func(), error) {
			l, err := open(clients[0], explore.Lease)
			own, closes := l.(io.Closer)
			if err == nil {
				if _, known := l.(lock.Inspector); !known {
					l = &inspected{l, clients[0]}
				}
			}
			return l, func() {
				if closes {
					_ = own.Close()
				}
				_ = clients[0].Close()
			}, err
		},
	}
	var answer Explored
	var err error
	if answer.Result, err = explore.Run(ctx, c); err != nil {
		return err
	}
	if len(answer.Result.Found) > 0 {
		played, err := explore.Play(ctx, c, answer.Result.Found[0].Schedule)
		if err != nil {
			return err
		}
		for _, one := range played.Steps {
			answer.Told = append(answer.Told, one.Says.String())
		}
	}
	return json.NewEncoder(out).Encode(answer)
}

// inspected is a lock that cannot tell who holds it: every key whose name contains the lock's counts as its own, and
// the owner is what the key holds.
type inspected struct {
	lock.Locker
	client *redis.Client
}

// Inspect implements [lock.Inspector].
func (l *inspected) Inspect(ctx context.Context, key string) (lock.State, error) {
	names, err := l.client.Keys(ctx, "*").Result()
	for _, name := range names {
		if !strings.Contains(name, key) {
			continue
		}
		value, err := l.client.Get(ctx, name).Result()
		if err != nil {
			continue // it is no string: a queue, or a counter of another kind
		}
		left, err := l.client.PTTL(ctx, name).Result()
		if err != nil {
			return lock.State{}, err
		}
		if left < 0 {
			left = lock.NoExpiry
		}
		return lock.State{Owner: lock.Owner(value), TTL: left}, nil
	}
	return lock.State{}, err
}
