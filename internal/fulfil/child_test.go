package fulfil

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// The test binary is a process that persists, where these are set.
const (
	childRedis  = "FULFIL_CHILD_REDIS"
	childDSN    = "FULFIL_CHILD_DSN"
	childPrefix = "FULFIL_CHILD_PREFIX"
	childName   = "FULFIL_CHILD_NAME"  // under which it goes on after a restart; may be empty
	childPoint  = "FULFIL_CHILD_POINT" // where it kills itself; may be empty
	childOdds   = "FULFIL_CHILD_ODDS"  // how likely each time
)

// child persists until SIGTERM, or until it kills itself.
func child() int {
	if err := persistAsChild(); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func persistAsChild() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis), MaxRetries: -1})
	defer client.Close()
	db, err := database.Open(ctx, database.Config{MySQL: os.Getenv(childDSN)})
	if err != nil {
		return err
	}
	defer db.Close()
	var plan []lock.Fault
	if point := os.Getenv(childPoint); point != "" {
		odds, err := strconv.ParseFloat(os.Getenv(childOdds), 64)
		if err != nil {
			return err
		}
		plan = append(plan, lock.Fault{Point: lock.Point(point), Effect: lock.EffectKill, Probability: odds})
	}
	faults, err := lock.NewFaults(plan, nil)
	if err != nil {
		return err
	}
	said := &shelf{Shelf: db.Shelf()}
	said.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		fmt.Println("begins", len(batch))
		if os.Getenv(childName) == sleeper {
			time.Sleep(300 * time.Millisecond) // in which it is stopped
		}
		states, err := said.Shelf.Persist(ctx, batch)
		fmt.Println("wrote", len(batch), states, err)
		return states, err
	}
	f, err := New(Config{
		Client: client, Shelf: said, Orders: db.Orders(), Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		Prefix: os.Getenv(childPrefix), Name: os.Getenv(childName), Faults: faults, BatchSize: 8,
		Block: 20 * time.Millisecond, DiscoverEvery: 50 * time.Millisecond, ClaimIdle: 100 * time.Millisecond,
		FirstPause: 5 * time.Millisecond, MaxPause: 100 * time.Millisecond, MaxAttempts: 1000,
	})
	if err != nil {
		return err
	}
	f.Run(ctx)
	return nil
}

// sleeper is the name of a child that takes its time for each batch.
const sleeper = "sleeper"

func (s *shop) startChild(redisAddr, dsn, name string, point lock.Point, odds float64) *testkit.Process {
	s.t.Helper()
	self, err := os.Executable()
	s.must(err)
	return testkit.Start(s.t, testkit.Command{Path: self, Env: []string{
		childRedis + "=" + redisAddr, childDSN + "=" + dsn, childPrefix + "=" + s.prefix, childName + "=" + name, childPoint + "=" + string(point),
		childOdds + "=" + strconv.FormatFloat(odds, 'f', -1, 64),
	}})
}

// A process is stopped in the middle of a batch for longer than it takes others to claim
// it, and wakes when everything is decided.
func TestPausedPastTheClaim(t *testing.T) {
	addr, where := testkit.Redis(t).Addr(), testkit.MariaDB(t)
	s := openShop(t, clientOf(t, addr), where, 1, 100)
	s.accept(1, 8)
	p := s.startChild(addr, where.DSN, sleeper, "", 0)
	p.WaitLine(t, `^begins`)
	p.Pause()

	_, stop := s.run(func(c *Config) { c.ClaimIdle = 50 * time.Millisecond })
	s.drained()
	stop()
	s.atRest()
	p.Resume()
	p.WaitLine(t, `^wrote \d+ \[.*\] <nil>$`)
	if err := p.Stop(); err != nil {
		t.Error(err, p.Output())
	}
	if n := s.atRest(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// The same, where the others rejected what the sleeper holds: its late confirmation is
// refused, and the reservation is given back once.
func TestPausedPastARejection(t *testing.T) {
	addr, where := testkit.Redis(t).Addr(), testkit.MariaDB(t)
	s := openShop(t, clientOf(t, addr), where, 1, 100)
	s.accept(1, 4)
	p := s.startChild(addr, where.DSN, sleeper, "", 0)
	p.WaitLine(t, `^begins`)
	p.Pause()

	_, stop := s.run(func(c *Config) {
		c.ClaimIdle, c.MaxAttempts = 50*time.Millisecond, 2
		c.Shelf = &shelf{Shelf: s.db.Shelf(), persist: func(context.Context, []order.Accepted) ([]order.Status, error) {
			return nil, fmt.Errorf("not today")
		}}
	})
	if n := s.atRest(); n != 4 || len(s.letters(1)) != 4 {
		t.Errorf("%d rejected, %d letters", n, len(s.letters(1)))
	}
	stop()
	p.Resume()
	p.WaitLine(t, `^wrote 4 \[rejected.*\] <nil>$`)
	if err := p.Stop(); err != nil {
		t.Error(err, p.Output())
	}
	if n := s.atRest(); n != 4 || len(s.letters(1)) != 4 {
		t.Errorf("%d rejected, %d letters", n, len(s.letters(1)))
	}
}

// Processes that kill themselves at every point of the way, and are started again.
func TestKilledAtEveryPoint(t *testing.T) {
	for _, point := range []lock.Point{lock.CriticalSection, lock.AfterCommit, lock.BeforeRelease} {
		for _, name := range []string{"", "me"} {
			t.Run(fmt.Sprintf("%s %s", point, name), func(t *testing.T) {
				addr, where := testkit.Redis(t).Addr(), testkit.MariaDB(t)
				s := openShop(t, clientOf(t, addr), where, 3, 100)
				s.accept(1, 40)
				s.accept(2, 40)
				s.accept(3, 20)
				s.outdate(3)
				kills, odds := 0, 1.0 // the first one dies for certain
				for deadline := time.Now().Add(60 * time.Second); s.left() > 0; kills++ {
					if time.Now().After(deadline) {
						t.Fatal("does not come to an end")
					}
					p := s.startChild(addr, where.DSN, name, point, odds)
					odds = 0.3
					eventually(t, "the child ends, or nothing is left", func() bool {
						select {
						case <-p.Done():
							return true
						default:
							return s.left() == 0
						}
					})
					p.Kill()
				}
				if kills < 2 {
					t.Errorf("only %d processes were needed", kills)
				}
				t.Logf("%d processes", kills)
				if n := s.atRest(); n != 20 || len(s.letters(3)) != 20 {
					t.Errorf("%d rejected, %d letters; want 20", n, len(s.letters(3)))
				}
			})
		}
	}
}

// outdate makes what was accepted of a voucher be of an epoch that is over.
func (s *shop) outdate(id int64) {
	s.t.Helper()
	closed, err := s.db.Shelf().Close(s.t.Context(), id)
	s.must(err)
	_, err = s.db.Shelf().Open(s.t.Context(), id, closed.Epoch)
	s.must(err)
}

// left is how much is on its way.
func (s *shop) left() (n int64) {
	s.t.Helper()
	for _, id := range s.vouchers {
		n += s.client.XLen(s.t.Context(), s.keys(id).Orders).Val()
	}
	return n
}
