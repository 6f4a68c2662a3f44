package admission_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission"
	"seckill/internal/admission/contract"
	"seckill/internal/database"
	"seckill/internal/fulfil"
	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/testkit"
)

// When these environment variables are set, the test binary runs as a process of the service that has everything that
// late money passes: it takes the provider's events, asks Redis, writes the orders, and refunds.
const (
	lateChild     = "late money"
	childRedis    = "LATE_CHILD_REDIS"
	childEngine   = "LATE_CHILD_ENGINE"
	childDSN      = "LATE_CHILD_DSN"
	childPrefix   = "LATE_CHILD_PREFIX"
	childProvider = "LATE_CHILD_PROVIDER"
	childPoint    = "LATE_CHILD_POINT" // where it kills itself; may be empty
)

const (
	childKey    = "an API key of the tests"
	childSecret = payment.SecretPrefix + "bGF0ZSBtb25leSBmb3IgYSBjaGlsZCBwcm9jZXNz"
)

// The points on the way of late money, in the order in which it passes them.
const (
	pointRecorded  = "the money is recorded, and the provider not told"
	pointDecided   = "Redis has decided, and nobody knows"
	pointRead      = "the entry is read, and nothing written"
	pointWritten   = "the database has decided, and the entry is not acknowledged"
	pointRejected  = "the order is rejected in the database, and not in Redis"
	pointRefund    = "the refund is decided"
	pointCall      = "the refund is read, and the provider not called"
	pointReturned  = "the provider has refunded, and nothing is recorded"
	pointCompleted = "the refund is recorded"
)

// runs are the parts of a process that dies at a point: none that comes later on the way, since it might be faster than
// the signal.
var runs = map[string]struct{ late, workers, refunds bool }{
	pointRecorded: {},
	pointDecided:  {late: true},
	pointRead:     {late: true, workers: true},
	pointWritten:  {late: true, workers: true},
	pointRejected: {workers: true},
	pointRefund:   {late: true, workers: true},
	pointCall:     {true, true, true},
	pointReturned: {true, true, true}, pointCompleted: {true, true, true}, "": {true, true, true},
}

// fate kills the process at a point.
type fate struct {
	point string
}

func (f fate) pass(point string) {
	if f.point != point {
		return
	}
	fmt.Println("killed:", point)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // until the signal arrives
}

// faults are the points that fulfil has itself.
func (f fate) faults() (*lock.Faults, error) {
	var plan []lock.Fault
	for point, at := range map[string]lock.Point{pointRead: lock.CriticalSection, pointWritten: lock.AfterCommit, pointRejected: lock.BeforeRelease} {
		if f.point == point {
			plan = append(plan, lock.Fault{Point: at, Effect: lock.EffectKill})
		}
	}
	return lock.NewFaults(plan, nil)
}

// child is the main function of a child process. It runs until SIGTERM, or until it kills itself.
func child() int {
	if err := runChild(); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func runChild() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	f := fate{point: os.Getenv(childPoint)}
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(childRedis), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	client.AddHook(decided{f})
	db, err := database.Open(ctx, configOf(testkit.Database{Engine: os.Getenv(childEngine), DSN: os.Getenv(childDSN)}))
	if err != nil {
		return err
	}
	defer db.Close()
	settlements, err := childSettlements(db, f)
	if err != nil {
		return err
	}
	faults, err := f.faults()
	if err != nil {
		return err
	}
	log, prefix := slog.New(slog.NewTextHandler(os.Stdout, nil)), os.Getenv(childPrefix)
	fulfiller, err := fulfil.New(fulfil.Config{
		Client: client, Store: db.AdmissionStore(), Orders: db.Orders(), Log: log, Prefix: prefix, Faults: faults,
		Block: 20 * time.Millisecond, ClaimIdle: 200 * time.Millisecond, DiscoverEvery: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	gate, err := admission.New(admission.Config{
		Client: client, Store: db.AdmissionStore(), Workers: fulfiller, Locker: local.New(), Log: log, Prefix: prefix,
		AttemptTimeout: 10 * time.Second, DecisionTimeout: 30 * time.Second, OpenWait: 5 * time.Second, // a busy machine is no outage
	})
	if err != nil {
		return err
	}
	defer func() { _ = gate.Close() }()
	var running sync.WaitGroup
	defer running.Wait()
	if runs[f.point].workers {
		running.Go(func() { fulfiller.Run(ctx) })
	}
	if runs[f.point].late {
		running.Go(func() { gate.LateMoney(lateStore{db.AdmissionStore(), f}).Run(ctx) })
	}
	if runs[f.point].refunds {
		running.Go(func() { settlements.Run(ctx) })
	}
	return serveEvents(ctx, settlements)
}

func childSettlements(db *database.DB, f fate) (*payment.Settlements, error) {
	webhooks, err := payment.NewWebhooks(childSecret)
	if err != nil {
		return nil, err
	}
	client, err := payment.NewClient(payment.ClientConfig{URL: os.Getenv(childProvider), Key: childKey})
	if err != nil {
		return nil, err
	}
	lifecycle := moneyStore{db.Lifecycle(), f}
	return payment.NewSettlements(payment.SettlementsConfig{
		Webhooks: webhooks, Provider: payment.NewProvider(client, "EUR"), Lifecycle: lifecycle, Store: lifecycle,
		Observer: unobserved{}, Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	})
}

// serveEvents takes the provider's events until ctx ends.
func serveEvents(ctx context.Context, settlements *payment.Settlements) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = settlements.Receive(r.Context(), r.Header, body)
		}
		if err != nil {
			fmt.Println("event:", err)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("serving on http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// lateStore is the store of what decides about late money.
type lateStore struct {
	*database.AdmissionStore
	fate fate
}

// RefundLate implements [contract.LateStore].
func (s lateStore) RefundLate(ctx context.Context, m contract.LateMoney, why order.Outcome) error {
	err := s.AdmissionStore.RefundLate(ctx, m, why)
	if err == nil {
		s.fate.pass(pointRefund)
	}
	return err
}

// moneyStore is the store of what settles and refunds.
type moneyStore struct {
	*database.Lifecycle
	fate fate
}

// Settle implements [payment.Lifecycle].
func (s moneyStore) Settle(ctx context.Context, r order.Receipt) (order.Settlement, error) {
	settled, err := s.MarkPaid(ctx, r)
	if err == nil && !settled.Repeated {
		s.fate.pass(pointRecorded)
	}
	return settled, err
}

// Refund implements [payment.Lifecycle].
func (s moneyStore) Refund(ctx context.Context, id int64) (order.Order, error) {
	return s.BeginRefund(ctx, id)
}

// DueRefunds implements [payment.Store].
func (s moneyStore) DueRefunds(ctx context.Context, after string, limit int) ([]order.RefundRequest, error) {
	due, err := s.Lifecycle.DueRefunds(ctx, after, limit)
	if len(due) > 0 {
		s.fate.pass(pointCall)
	}
	return due, err
}

// MarkRefunded implements [payment.Store].
func (s moneyStore) MarkRefunded(ctx context.Context, paymentID string) error {
	s.fate.pass(pointReturned)
	err := s.Lifecycle.MarkRefunded(ctx, paymentID)
	if err == nil {
		s.fate.pass(pointCompleted)
	}
	return err
}

// decided kills the process when the answer of admit.lua about late money has arrived.
type decided struct{ fate fate }

func (d decided) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d decided) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		d.look(cmd)
		return err
	}
}

func (d decided) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			d.look(cmd)
		}
		return err
	}
}

// look looks at an answer. The last argument of admit.lua is an order, which a 0 precedes if its money came late.
func (d decided) look(cmd redis.Cmder) {
	args := cmd.Args()
	last, _ := args[len(args)-1].(string)
	if cmd.Err() == nil && len(args) > 12 && strings.HasPrefix(fmt.Sprint(args[0]), "eval") && strings.HasPrefix(last, "0") {
		d.fate.pass(pointDecided)
	}
}

// unobserved counts nothing.
type unobserved struct{}

func (unobserved) Event(string, string)         {}
func (unobserved) Settled(order.Outcome, int64) {}
func (unobserved) Refund(error)                 {}
func (unobserved) Lookup(error)                 {}
func (unobserved) Unmatched(int64, int64)       {}
func (unobserved) Due(int)                      {}
