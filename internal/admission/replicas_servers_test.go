package admission

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/batch"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// replicated is a voucher on a primary with one replica, which can be stopped.
type replicated struct {
	*fixture
	primary, replica *testkit.RedisServer
}

func newReplicated(t *testing.T, stock int64) *replicated {
	t.Helper()
	r := &replicated{primary: testkit.NewRedis(t)}
	r.replica = testkit.NewRedisReplica(t, r.primary)
	inStep(t, r.primary.Addr())
	r.fixture = newFixture(t, at(r.primary.Addr()), stock)
	r.config.WaitReplicas = 1
	r.config.AttemptTimeout, r.config.DecisionTimeout = time.Second, 3*time.Second // so a replica has 500 ms to acknowledge
	return r
}

// inStep waits until a replica acknowledges what its primary writes. After a start or a pause that takes a moment,
// which is no concern of a test that measures an outage.
func inStep(t testing.TB, addr string) {
	t.Helper()
	conn := dial(t, at(addr)).Conn()
	defer conn.Close()
	testkit.Until(t, "a replica that acknowledges", func() bool {
		// There must be something to acknowledge. A cluster node accepts only keys of its own slots.
		for n := 0; conn.Set(t.Context(), "probe"+strconv.Itoa(n), 1, time.Second).Err() != nil && n < 100; n++ {
			continue
		}
		replicas, err := conn.Wait(t.Context(), 1, time.Second).Result()
		return err == nil && replicas > 0
	})
}

// resume lets the replica run again and waits until it acknowledges.
func (r *replicated) resume() {
	r.t.Helper()
	r.replica.Resume()
	inStep(r.t, r.primary.Addr())
}

// process returns a gate with its own connections, which soon gives up.
func (r *replicated) process() *Gate {
	r.t.Helper()
	return r.within(r.config.DecisionTimeout)
}

// within is process with another DecisionTimeout.
func (r *replicated) within(decision time.Duration) *Gate {
	r.t.Helper()
	c := r.config
	c.DecisionTimeout = decision
	c.Client = dial(r.t, r.options)
	c = c.WithDefaults()
	fail.NowIf(r.t, c.Validate())
	g := newGate(c, newLedger(c))
	r.t.Cleanup(func() { _ = g.Close() })
	return g
}

// writes returns how much the primary has written. (WAIT itself moves the replication offset.)
func (r *replicated) writes() string {
	r.t.Helper()
	n := r.client.InfoMap(r.t.Context(), "persistence").Item("Persistence", "rdb_changes_since_last_save")
	if n == "" {
		r.t.Fatal("the server does not say how much it has written")
	}
	return n
}

// A decision is acknowledged once the replica has what the call wrote, and what another connection wrote about the same
// orders. Refusals need no acknowledgement.
func TestCallWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 2)
	g := r.process()
	fail.NowIf(t, g.Open(t.Context(), &r.store.voucher))
	epoch := r.store.epochState.Epoch
	ask := func(orders ...order.Order) (ledger.Decision, error) {
		c := g.config
		c.Client = dial(t, r.options) // another connection
		return newLedger(c).Admit(t.Context(), batchOf(r.keys, ledger.Known{Epoch: epoch}, orders...))
	}
	one, other := order.Order{UserID: 1, ID: 11}, order.Order{UserID: 1, ID: 12}
	if a, err := ask(one); a.Outcomes != "a" || err != nil {
		t.Fatalf("with a replica: %+v, %v", a, err)
	}
	r.replica.Pause()
	two := order.Order{UserID: 2, ID: 21}
	a, err := ask(two)
	if a.Outcomes != "a" || !errors.Is(err, ledger.ErrUnacknowledged) || ledger.Harmless(err) {
		t.Errorf("without one: %+v, %v", a, err)
	}
	before := r.writes()
	if a, err = ask(two); a.Outcomes != "r" || a.Seq != 2 || !errors.Is(err, ledger.ErrUnacknowledged) {
		t.Errorf("the same again: %+v, %v", a, err)
	}
	if r.writes() == before {
		t.Error("a repetition writes nothing that a replica could acknowledge")
	}
	if a, err = ask(other, order.Order{UserID: 3, ID: 31}); a.Outcomes != "os" || a.HasOrder() || !errors.Is(err, ledger.ErrUnacknowledged) {
		t.Errorf("refusals: %+v, %v", a, err)
	}
	r.resume()
	if a, err = ask(two); a.Outcomes != "r" || err != nil {
		t.Errorf("with the replica again: %+v, %v", a, err)
	}
}

// While the replica does not answer, buyers are told that the outcome is unknown, look-ups do not report an order that
// it does not have, and a refused request waits for nobody. Once it answers, all are told of their orders.
func TestNobodyIsToldOfAnOrderThatNoReplicaHas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 4)
	g, patient := r.process(), r.within(time.Hour)
	fail.NowIf(t, g.Open(t.Context(), &r.store.voucher))
	r.wantOrder(patient, 1, 11, 77, 11)
	if o, err := patient.OrdersOf(t.Context(), 1); err != nil || len(o) != 1 || o[0].ID != 11 {
		t.Errorf("with a replica: %v, %v", o, err)
	}
	r.replica.Pause()
	begun := time.Now()
	var buying sync.WaitGroup
	buying.Go(func() { fail.Unless(t, r.buy(g, 2, 21), order.ErrUnavailable, "an order") })
	buying.Go(func() { fail.Unless(t, fail.Of(r.buyUnder(g, 3, 31, 78)), order.ErrUnavailable, "an order with a key") })
	buying.Wait()
	if took := time.Since(begun); took < g.config.DecisionTimeout {
		t.Errorf("given up after %v", took)
	}

	waiting := func(user, id int64) *request {
		return batch.NewRequest(t.Context(), pendingOrder{userID: user, orderID: id})
	}
	last, again, none := waiting(4, 41), waiting(1, 12), waiting(5, 51)
	buying.Go(func() {
		all := []*request{last, again, none}
		fail.Unless(t, patient.voucher(&r.store.voucher).bucketOf(1).decide(all), nil, "the batch")
	})
	other := r.process()
	fail.Unless(t, <-again.Answered(), order.ErrAlreadyOrdered, "a second order")
	fail.Unless(t, <-none.Answered(), voucher.ErrSoldOut, "after the last one")
	select {
	case err := <-last.Answered():
		t.Errorf("an order that no replica has was answered: %v", err)
	default:
	}
	there := order.Order{ID: 21, UserID: 2, VoucherID: r.store.voucher.ID}
	fail.Unless(t, fail.Of(r.buyUnder(other, 3, 32, 78)), order.ErrUnavailable, "the key again")
	fail.Unless(t, g.lookups.replicated(t.Context(), r.keys, there), order.ErrUnavailable, "whether a replica has it")
	fail.Unless(t, fail.Of(g.OrdersOf(t.Context(), 4)), order.ErrUnavailable, "the user's orders")
	fail.Unless(t, fail.Of(g.OrderOf(t.Context(), &r.store.voucher, 3)), order.ErrUnavailable, "the order under the key")

	r.resume()
	fail.Unless(t, <-last.Answered(), nil, "the last one")
	buying.Wait()
	testkit.Until(t, "the replica has the orders", func() bool {
		return g.lookups.replicated(t.Context(), r.keys, there) == nil && fail.Of(g.OrdersOf(t.Context(), 4)) == nil
	})
	fail.Unless(t, r.buy(r.within(time.Hour), 2, 21), nil, "the same again")
	r.wantOrder(r.within(time.Hour), 3, 33, 78, 31) // g refuses from memory: all is sold
	there.ID = 22
	fail.Unless(t, g.lookups.replicated(t.Context(), r.keys, there), order.ErrUnavailable, "an order that is not there")
	r.takeAll()
	r.balanced(g, 4)
}

// A replica that is promoted has every acknowledged order.
func TestPromotedReplicaHasEveryAcknowledgedOrder(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 1000)
	g := r.process()
	var promised []int64
	several, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		<-several
		r.replica.Pause()
		close(stopped)
	}()
	for user := int64(1); ; user++ {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := g.Admit(ctx, &r.store.voucher, order.Order{ID: user, UserID: user, VoucherID: r.store.voucher.ID})
		cancel()
		if err != nil {
			fail.Unless(t, err, order.ErrUnavailable, "user %d", user)
			break
		}
		if promised = append(promised, user); len(promised) == 20 {
			close(several)
		}
	}
	if len(promised) < 20 {
		close(several)
	}
	<-stopped
	r.primary.Kill()
	r.replica.Resume()
	r.replica.Promote()
	client := r.replica.Client(t)
	for _, user := range promised {
		id := strconv.FormatInt(user, 10)
		fail.Unequal(t, client.HGet(t.Context(), r.keys.Users, id).Val(), id, "the order that was promised to user %d", user)
	}
	if len(promised) == 0 {
		t.Error("nothing was promised: this shows nothing")
	}
}

// An order that no replica has is persisted, and then a replica without it is promoted. The process that had the order
// accepted detects the loss. Otherwise its buyer, who got no answer, would be sold a second order, which the database
// would refuse.
func TestLossOfAnUnacknowledgedOrderIsDetected(t *testing.T) {
	t.Parallel()
	primary, replica := testkit.NewRedis(t), testkit.NewRedis(t)
	link, door := testkit.NewProxy(t, primary.Addr()), testkit.NewProxy(t, primary.Addr())
	replica.ReplicaOf(link.Addr())
	inStep(t, primary.Addr())
	r := &replicated{fixture: newFixture(t, at(door.Addr()), 10)}
	r.config.WaitReplicas = 1
	r.config.AttemptTimeout, r.config.DecisionTimeout = time.Second, 3*time.Second // so a replica has 500 ms to acknowledge
	g := r.process()
	fail.NowIf(t, r.buy(g, 1, 11))
	link.Cut()
	fail.NowUnless(t, r.buy(g, 2, 21), order.ErrUnavailable, "without a replica")
	r.takeAll()
	primary.Kill()
	replica.Promote()
	door.SetUpstream(replica.Addr())
	testkit.NewRedisReplica(t, replica)
	inStep(t, replica.Addr())
	finish := r.run()
	testkit.Until(t, "an answer", func() bool {
		err := r.buy(g, 2, 22)
		if err != nil && !errors.Is(err, order.ErrUnavailable) && !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("told %v", err)
		}
		return !errors.Is(err, order.ErrUnavailable)
	})
	finish()
	fail.Unless(t, r.buy(g, 2, 22), order.ErrAlreadyOrdered, "a second order of a user whose first one Redis forgot")
	r.balanced(g, 2)
}

// A voucher is not opened under a new epoch before a replica knows that the one before is closed: if it were promoted
// then, processes that know nothing of the new epoch could tell buyers of orders under the old one.
func TestReopeningWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 10)
	g := r.process()
	fail.NowIf(t, g.Open(t.Context(), &r.store.voucher))
	r.replica.Pause()
	b := g.voucher(&r.store.voucher).buckets[0]
	_ = b.voucher.markClosed(b, 2, ledger.DataLost)
	ctx, cancel := context.WithTimeout(t.Context(), g.config.DecisionTimeout)
	defer cancel()
	if err := g.Open(ctx, &r.store.voucher); err == nil {
		t.Error("opened without a replica")
	}
	if st, err := r.store.EpochState(t.Context(), r.store.voucher.ID); err != nil || st.Epoch != 3 {
		t.Errorf("epoch %d, %v; want 3, which is closed", st.Epoch, err)
	}
	r.resume()
	fail.NowIf(t, g.Open(t.Context(), &r.store.voucher))
	fail.Unequal(t, b.knownState().Epoch, 4, "epoch")
}

// Where the gate waits for replicas, a bucket receives only stock that they know was given.
func TestTransferWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 20)
	r.split(2)
	// Redis looks ten times a second whether a WAIT is over.
	r.config.AttemptTimeout, r.config.DecisionTimeout = 500*time.Millisecond, 3*time.Second
	g := r.process()
	users := usersOf(15, 2, func(b int) bool { return b == 1 })
	for _, user := range users[:10] {
		fail.NowIf(t, r.buy(g, user, 100+user))
	}
	r.replica.Pause()
	fail.Unless(t, r.buy(g, users[10], 100+users[10]), order.ErrUnavailable, "without the replica")
	all := ledger.New(r.client, ledger.Options{}).States(t.Context(), r.buckets())
	if all[0].To[1] != 5 || all[1].From[0] != 0 || all[1].Stock != 0 {
		t.Errorf("given %d, received %d: want 5 and, as no replica has acknowledged it, 0", all[0].To[1], all[1].From[0])
	}
	r.resume()
	for _, user := range users[10:] {
		fail.Unless(t, r.buy(g, user, 100+user), nil, "with it again")
	}
	fail.Unequal(t, ledger.New(r.client, ledger.Options{}).States(t.Context(), r.buckets())[1].From[0], 5, "received")
	r.takeAll()
	r.balanced(g, 15)
}
