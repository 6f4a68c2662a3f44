package pairing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/testkit/fail"
)

// store is a database or a Redis in memory.
type store struct {
	mu   sync.Mutex
	r    Record
	down bool
	full bool // it takes no writes
}

var errDown = errors.New("no answer")

func (s *store) do(fn func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	fn()
	return nil
}

func (s *store) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// copy is a copy of the store as it is now.
func (s *store) copy() *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &store{r: s.r}
}

func (s *store) Pair(context.Context) (r Record, err error) {
	err = s.do(func() { r = s.r })
	return r, err
}

func (s *store) ProposeMark(_ context.Context, of Record, next string) error {
	return s.do(func() {
		if s.r.Generation == of.Generation && s.r.Mark == of.Mark && s.r.Next == "" {
			s.r.Next = next
		}
	})
}

func (s *store) SettleMark(_ context.Context, next, partner string) error {
	return s.do(func() {
		if s.r.Next == next {
			s.r = Record{Generation: s.r.Generation, Mark: next, Partner: partner}
		}
	})
}

func (s *store) TakePair(_ context.Context, from, to Record) (taken bool, err error) {
	err = s.do(func() {
		if taken = s.r == from; taken {
			s.r = to
		}
	})
	return taken, err
}

func (s *store) LeavePair(_ context.Context, of Record) error {
	return s.do(func() { s.r.Clean = s.r.Generation == of.Generation })
}

func (s *store) MovePair(_ context.Context, from, to Record) (moved bool, err error) {
	if s.full {
		return false, errDown
	}
	err = s.do(func() {
		if moved = s.r.Generation == from.Generation && s.r.Mark == from.Mark || s.r.Mark == to.Mark; moved {
			s.r = to
		}
	})
	return moved, err
}

// instance is a process that looks at its stores until it is stopped.
type instance struct {
	*Pairing
	stop func()
}

func start(t *testing.T, db, redis *store, redisName string) *instance {
	return startNamed(t, db, "db", redis, redisName)
}

func startNamed(t *testing.T, db *store, dbName string, redis *store, redisName string) *instance {
	p := New(Config{Database: db, Redis: redis, DatabaseName: dbName, RedisName: redisName, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		p.Start(ctx)
		p.Run(ctx)
	})
	i := &instance{p, sync.OnceFunc(func() { cancel(); running.Wait() })}
	t.Cleanup(i.stop)
	return i
}

func wait(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble
	synctest.Wait()
}

func (i *instance) want(t *testing.T, what string, generation int64, paired bool) {
	t.Helper()
	now, err := i.Generation()
	if paired != (err == nil) || paired && now != generation {
		t.Errorf("%s: generation %d, %v", what, now, err)
	}
	if !paired && !errors.Is(err, ErrUnpaired) {
		t.Errorf("%s: %v", what, err)
	}
}

// Two instances with one database have two Redis servers, as in a rolling restart to a new address. The second one is
// refused, and names both stores, for as long as the first one runs. After a clean stop of it the second one goes on;
// after any other, an operator decides.
func TestTwoRedisWithOneDatabase(t *testing.T) {
	for _, clean := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			db, old, other := &store{}, &store{}, &store{}
			first := start(t, db, old, "old:6379")
			wait(10 * time.Second)
			second := start(t, db, other, "new:6379")
			for range 30 {
				wait(time.Second)
				first.want(t, "the first", 0, true)
				second.want(t, "the second", 0, false)
			}
			if err := second.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "old:6379") || !strings.Contains(err.Error(), "new:6379") || !strings.Contains(err.Error(), "api adopt") {
				t.Errorf("Ready: %v", err)
			}
			first.stop()
			if clean {
				fail.If(t, first.Leave(t.Context()))
			}
			wait(quiet + time.Second)
			second.want(t, "the second alone", 1, clean)
			if clean {
				return
			}
			operator := New(second.config)
			if adopted, err := operator.Adopt(t.Context()); !adopted || err != nil {
				t.Errorf("adopted %v, %v", adopted, err)
			}
			wait(quietOwn + time.Second)
			second.want(t, "the second, adopted", 1, true)
			again := start(t, db, old, "old:6379") // it does not come back by itself
			wait(time.Minute)
			again.want(t, "the first again", 1, false)
			second.want(t, "the second", 1, true)
		})
	}
}

// A restored copy of the database is started beside production, with production's Redis.
func TestCopyOfTheDatabaseBesideProduction(t *testing.T) {
	for _, name := range []string{"db", "copy"} {
		synctest.Test(t, func(t *testing.T) {
			db, redis := &store{}, &store{}
			one, two := start(t, db, redis, "r"), start(t, db, redis, "r")
			wait(10 * time.Second)
			restored := db.copy()
			wait(3 * time.Second)
			three := startNamed(t, restored, name, redis, "r")
			for range 60 {
				wait(time.Second)
				one.want(t, "production", 0, true)
				two.want(t, "production", 0, true)
				three.want(t, "the copy", 0, false)
			}
			if adopted, err := New(three.config).Adopt(t.Context()); adopted || !errors.Is(err, ErrUnpaired) {
				t.Errorf("adopted %v beside production, %v", adopted, err)
			}
		})
	}
}

// The copy is started at once: it still has the mark of production.
func TestYoungCopyOfTheDatabase(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			db, redis := &store{}, &store{}
			one := start(t, db, redis, "r")
			wait(10*time.Second + after)
			restored := startNamed(t, db.copy(), "copy", redis, "r")
			for range 100 {
				wait(100 * time.Millisecond)
				one.want(t, "production", 0, true)
				restored.want(t, "the copy", 0, false)
			}
		})
	}
}

// Redis restarts empty on the same address, or is rolled back, while instances run, or after all of them have died. So
// is the database by a failover to an older copy, or a restore. They are a pair again by themselves, in a new
// generation.
func TestStoreIsOlder(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		for name, lose := range map[string]func(db, redis *store, older, olderRedis Record){
			"Redis is empty":        func(_, redis *store, _, _ Record) { redis.r = Record{} },
			"Redis is older":        func(_, redis *store, _, older Record) { redis.r = older },
			"the database is older": func(db, _ *store, older, _ Record) { db.r = older },
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db, redis := &store{}, &store{}
					one, two := start(t, db, redis, "r"), start(t, db, redis, "r")
					wait(10 * time.Second)
					older, olderRedis := db.copy().r, redis.copy().r
					wait(10 * time.Second)
					limit := quietOwn + time.Second
					if restarted {
						one.stop()
						two.stop()
						limit = quiet + quietOwn + time.Second
					}
					db.set(func() { redis.set(func() { lose(db, redis, older, olderRedis) }) })
					if restarted {
						one, two = start(t, db, redis, "r"), start(t, db, redis, "r")
					}
					wait(lookEvery + 50*time.Millisecond)
					one.want(t, "at first", 0, false)
					if ready := one.Ready(t.Context()) == nil; ready == restarted {
						t.Errorf("ready %v", ready)
					}
					wait(limit)
					for range 10 {
						one.want(t, "then", 1, true)
						two.want(t, "then", 1, true)
						wait(time.Second)
					}
				})
			})
		}
	}
}

// Redis is empty and takes no writes at first, as a replica that is about to be promoted.
func TestRedisTakesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, redis := &store{}, &store{}
		one := start(t, db, redis, "r")
		wait(5 * time.Second)
		redis.set(func() { redis.r, redis.full = Record{}, true })
		wait(quietOwn + time.Second)
		one.want(t, "at first", 0, false)
		redis.set(func() { redis.full = false })
		wait(quietOwn + time.Second)
		one.want(t, "then", 2, true)
	})
}

// The database is away for minutes: the instances stay paired. If Redis is taken over meanwhile by instances with
// another database, they are not any more.
func TestDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, redis := &store{}, &store{}
		one := start(t, db, redis, "r")
		wait(5 * time.Second)
		db.set(func() { db.down = true })
		wait(5 * time.Minute)
		one.want(t, "without its database", 0, true)
		redis.set(func() { redis.r = Record{Generation: 1, Mark: "other", Partner: "other"} })
		wait(time.Second)
		one.want(t, "with Redis taken over", 0, false)
		db.set(func() { db.down = false })
		wait(time.Minute)
		one.want(t, "with a database that is not the one of Redis", 0, false)
	})
}

// An instance that was paused does not rely on what it knew before.
func TestLastLookIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := start(t, &store{}, &store{}, "r")
		wait(3 * time.Second)
		one.want(t, "at first", 0, true)
		one.stop()
		wait(maxAge + time.Second)
		one.want(t, "after a pause", 0, false)
	})
}
