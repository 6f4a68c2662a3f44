package fulfil

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// What a child process gets in its environment.
const (
	childRedis  = "FULFIL_CHILD_REDIS"
	childDSN    = "FULFIL_CHILD_DSN"
	childPrefix = "FULFIL_CHILD_PREFIX"
	childName   = "FULFIL_CHILD_NAME"  // the Config.Name; may be empty
	childPoint  = "FULFIL_CHILD_POINT" // the fault point at which it is killed
	childOdds   = "FULFIL_CHILD_ODDS"  // the probability at each pass
)

// child fulfils orders until SIGTERM, or until a fault kills it.
func child() int {
	if err := fulfilAsChild(); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func fulfilAsChild() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	db, err := database.Open(ctx, database.Config{MySQL: os.Getenv(childDSN)})
	if err != nil {
		return err
	}
	defer db.Close()
	var odds float64
	if _, err := fmt.Sscan(os.Getenv(childOdds), &odds); err != nil {
		return err
	}
	faults, err := lock.NewFaults([]lock.Fault{{Point: lock.Point(os.Getenv(childPoint)), Effect: lock.EffectKill, Probability: odds}}, nil)
	if err != nil {
		return err
	}
	f, err := New(Config{
		Client: client, Store: db.AdmissionStore(), Orders: db.Orders(), Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
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

// Processes are killed at every fault point, again and again: before the commit, between the commit and the
// acknowledgement, and between the recorded rejection and the return of its reservation. The next one has another name,
// so that it must claim the entries, or the same.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []lock.Point{lock.CriticalSection, lock.AfterCommit, lock.BeforeRelease} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			addr, where := testkit.Redis(t).Addr(), testkit.MariaDB(t)
			s := openReal(t, clientOf(t, addr), where, sale{vouchers: 3, stock: 100})
			s.accept(1, 40)
			s.accept(2, 40)
			s.accept(3, 20)
			s.makeEpochStale(3)
			started, killed := 0, 0
			for odds := 1.0; s.left() > 0 && !t.Failed(); odds = 0.3 { // the first one is always killed
				name := []string{"", "me", "me"}[started%3]
				started++
				p := testkit.StartChild(t, "fulfil", childRedis+"="+addr, childDSN+"="+where.DSN, childPrefix+"="+s.prefix,
					childName+"="+name, childPoint+"="+string(point), fmt.Sprint(childOdds, "=", odds))
				testkit.Until(t, "the child has ended or the streams are empty", func() bool {
					select {
					case <-p.Done():
						killed++
						return true
					default:
						return s.left() == 0
					}
				})
				p.Kill()
			}
			t.Logf("%d processes, %d of them were killed there", started, killed)
			if killed == 0 {
				t.Error("no process was killed")
			}
			if n := s.checkFinalState(); n != 20 || len(s.deadLetters(3)) != 20 {
				t.Errorf("%d rejected, %d dead letters; want 20", n, len(s.deadLetters(3)))
			}
		})
	}
}
