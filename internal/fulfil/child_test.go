package fulfil

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// When these environment variables are set, the test binary runs as a process that fulfils
// orders.
const (
	childRedis  = "FULFIL_CHILD_REDIS"
	childDSN    = "FULFIL_CHILD_DSN"
	childPrefix = "FULFIL_CHILD_PREFIX"
	childName   = "FULFIL_CHILD_NAME"  // the Config.Name; may be empty
	childPoint  = "FULFIL_CHILD_POINT" // the fault point at which it is killed; may be empty
	childOdds   = "FULFIL_CHILD_ODDS"  // the probability at each pass
)

// child is the main function of a child process. It runs until SIGTERM, or until a fault kills it.
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
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis), MaxRetries: -1, ContextTimeoutEnabled: true})
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
	resumed := testkit.NotifyResumed()
	var paused sync.Once
	printing := &fakeStore{AdmissionStore: db.AdmissionStore()}
	printing.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		fmt.Println("begins", len(batch))
		if os.Getenv(childName) == pausedChild {
			paused.Do(func() { <-resumed })
		}
		statuses, err := printing.AdmissionStore.Persist(ctx, batch)
		fmt.Println("wrote", len(batch), statuses, err)
		return statuses, err
	}
	f, err := New(Config{
		Client: client, Store: printing, Orders: db.Orders(), Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
		Prefix: os.Getenv(childPrefix), Name: os.Getenv(childName), Faults: faults, BatchSize: 8,
		Block: 20 * time.Millisecond, DiscoverEvery: 50 * time.Millisecond, ClaimIdle: 100 * time.Millisecond,
		MinBackoff: 5 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, MaxFailures: 1000, MaxAttempts: 1000,
	})
	if err != nil {
		return err
	}
	f.Run(ctx)
	return nil
}

// pausedChild is the name of a child that the test pauses in its first batch: it goes on once it is resumed.
const pausedChild = "pausedChild"

func (s *env) startChild(redisAddr, dsn, name string, point lock.Point, odds float64) *testkit.Process {
	s.t.Helper()
	self, err := os.Executable()
	s.must(err)
	return testkit.Start(s.t, testkit.Command{Path: self, Env: []string{
		childRedis + "=" + redisAddr, childDSN + "=" + dsn, childPrefix + "=" + s.prefix, childName + "=" + name, childPoint + "=" + string(point),
		childOdds + "=" + strconv.FormatFloat(odds, 'f', -1, 64),
	}})
}

// A process is paused in the middle of a batch until others have claimed and completed it, and
// then goes on.
func TestPausedPastTheClaim(t *testing.T) {
	t.Parallel()
	addr, where := testkit.Redis(t).Addr(), testkit.MariaDB(t)
	s := openEnv(t, clientOf(t, addr), where, 1, 100)
	s.accept(1, 8)
	p := s.startChild(addr, where.DSN, pausedChild, "", 0)
	p.WaitLine(t, `^begins`)
	p.Pause()

	_, stop := s.run(func(c *Config) { c.ClaimIdle = 50 * time.Millisecond })
	s.waitUntilEmpty()
	stop()
	s.checkFinalState()
	p.Resume()
	p.WaitLine(t, `^wrote \d+ \[.*\] <nil>$`)
	if err := p.Stop(); err != nil {
		t.Error(err, p.Output())
	}
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// As above, but the others reject the orders. The late confirmation is refused, and the
// reservation is returned exactly once.
func TestPausedPastARejection(t *testing.T) {
	t.Parallel()
	addr, where := testkit.Redis(t).Addr(), testkit.MariaDB(t)
	s := openEnv(t, clientOf(t, addr), where, 1, 100)
	s.accept(1, 4)
	p := s.startChild(addr, where.DSN, pausedChild, "", 0)
	p.WaitLine(t, `^begins`)
	p.Pause()

	_, stop := s.run(func(c *Config) {
		c.ClaimIdle = 50 * time.Millisecond
		c.Store = &fakeStore{AdmissionStore: s.db.AdmissionStore(), persist: func(context.Context, []order.Accepted) ([]order.Status, error) {
			return nil, order.ErrStaleEpoch
		}}
	})
	if n := s.checkFinalState(); n != 4 || len(s.deadLetters(1)) != 4 {
		t.Errorf("%d rejected, %d dead letters", n, len(s.deadLetters(1)))
	}
	stop()
	p.Resume()
	p.WaitLine(t, `^wrote 4 \[rejected.*\] <nil>$`)
	if err := p.Stop(); err != nil {
		t.Error(err, p.Output())
	}
	if n := s.checkFinalState(); n != 4 || len(s.deadLetters(1)) != 4 {
		t.Errorf("%d rejected, %d dead letters", n, len(s.deadLetters(1)))
	}
}

// Processes are killed at every fault point, again and again, and restarted.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []lock.Point{lock.CriticalSection, lock.AfterCommit, lock.BeforeRelease} {
		for _, name := range []string{"", "me"} {
			t.Run(fmt.Sprintf("%s %s", point, name), func(t *testing.T) {
				addr, where := testkit.Redis(t).Addr(), testkit.MariaDB(t)
				s := openEnv(t, clientOf(t, addr), where, 3, 100)
				s.accept(1, 40)
				s.accept(2, 40)
				s.accept(3, 20)
				s.makeEpochStale(3)
				kills, odds := 0, 1.0 // the first one is always killed
				for deadline := time.Now().Add(60 * time.Second); s.left() > 0; kills++ {
					if time.Now().After(deadline) {
						t.Fatal("the streams are not empty after 60 s")
					}
					p := s.startChild(addr, where.DSN, name, point, odds)
					odds = 0.3
					testkit.Until(t, "the child has ended or the streams are empty", func() bool {
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
				if n := s.checkFinalState(); n != 20 || len(s.deadLetters(3)) != 20 {
					t.Errorf("%d rejected, %d dead letters; want 20", n, len(s.deadLetters(3)))
				}
			})
		}
	}
}

// makeEpochStale starts a new epoch of a voucher, so that orders accepted before are refused.
func (s *env) makeEpochStale(id int64) {
	s.t.Helper()
	closed, err := s.db.AdmissionStore().Close(s.t.Context(), id)
	s.must(err)
	_, err = s.db.AdmissionStore().Open(s.t.Context(), id, closed.Epoch)
	s.must(err)
}

// left returns the number of entries in the streams.
func (s *env) left() (n int64) {
	s.t.Helper()
	for _, id := range s.vouchers {
		n += s.client.XLen(s.t.Context(), s.keys(id).Orders).Val()
	}
	return n
}
