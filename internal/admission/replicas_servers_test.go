package admission

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"seckill/internal/admission/batch"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// A repetition is told of an order only if replicas have the order.
func TestSameKeyWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 10)
	g := r.process()
	r.wantOrder(g, 1, 11, 77, 11)
	r.replica.Pause()
	wantErr(t, "without a replica", errOf(r.buyUnder(g, 2, 21, 78)), order.ErrUnavailable)
	wantErr(t, "the repetition without a replica", errOf(r.buyUnder(g, 2, 22, 78)), order.ErrUnavailable)
	if o, err := g.OrderOf(t.Context(), &r.store.voucher, 2); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("OrderOf without a replica = %+v, %v", o, err)
	}
	r.resume()
	r.wantOrder(g, 2, 23, 78, 21)
	r.takeAll()
	r.balanced(g, 2)
}

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

// inStep waits until a replica acknowledges what its primary writes. After a start or a pause that takes a moment, which
// is no concern of a test that measures an outage.
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

// process returns a gate with its own connections.
func (r *replicated) process() *Gate {
	r.t.Helper()
	c := r.config
	c.Client = dial(r.t, r.options)
	c = c.WithDefaults()
	must(r.t, c.Validate())
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

// A decision is acknowledged once the replica has what the call wrote, and what another connection wrote
// about the same orders. Refusals need no acknowledgement.
func TestCallWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 2)
	g := r.process()
	must(t, g.Open(t.Context(), &r.store.voucher))
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

// A buyer is told that the outcome is unknown while the replica does not answer, and is told of the order
// once it does.
func TestOrderWithoutReplicaIsNotConfirmedToItsBuyer(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 10)
	g := r.process()
	must(t, r.buy(g, 1, 11))
	r.replica.Pause()
	begun, watch := time.Now(), testkit.StartStopwatch()
	wantErr(t, "without a replica", r.buy(g, 2, 21), order.ErrUnavailable)
	if took, ran := time.Since(begun), watch.Stop(); took < g.config.DecisionTimeout || ran > 2*g.config.DecisionTimeout {
		t.Errorf("it took %v to give up", took)
	}
	there := order.Order{ID: 21, UserID: 2, VoucherID: r.store.voucher.ID}
	wantErr(t, "an order that no replica has", g.lookups.replicated(t.Context(), r.keys, there), order.ErrUnavailable)
	r.resume()
	wantErr(t, "an order that the replica has", g.lookups.replicated(t.Context(), r.keys, there), nil)
	there.ID = 22
	wantErr(t, "an order that is not there", g.lookups.replicated(t.Context(), r.keys, there), order.ErrUnavailable)
	wantErr(t, "the same again", r.buy(r.process(), 2, 21), nil)
	finish := r.run()
	finish()
	r.balanced(g, 2)
}

// A refused request does not wait for the replica although another request of its batch does. A lookup
// does not report an order that the replica does not have.
func TestOnlyOrdersWaitForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 2)
	g := r.process()
	must(t, r.buy(g, 1, 11))
	if o, err := g.OrdersOf(t.Context(), 1); err != nil || len(o) != 1 || o[0].ID != 11 {
		t.Errorf("with a replica: %v, %v", o, err)
	}
	r.replica.Pause()
	waiting := func(user, id int64) *request {
		return batch.NewRequest(t.Context(), pendingOrder{userID: user, orderID: id})
	}
	begun, done := time.Now(), make(chan error, 1)
	last, again, none := waiting(2, 21), waiting(1, 12), waiting(3, 31)
	go func() { done <- g.voucher(&r.store.voucher).bucketOf(1).decide([]*request{last, again, none}) }()
	wantErr(t, "a second order", <-again.Answered(), order.ErrAlreadyOrdered)
	wantErr(t, "after the last one", <-none.Answered(), voucher.ErrSoldOut)
	if took := time.Since(begun); took >= g.config.DecisionTimeout {
		t.Errorf("refused after %v", took)
	}
	if o, err := g.OrdersOf(t.Context(), 2); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("the user of an order that the replica does not have: %v, %v", o, err)
	}
	wantErr(t, "the request of that order", <-last.Answered(), order.ErrUnavailable)
	wantErr(t, "the batch", <-done, order.ErrUnavailable)
	r.resume()
	testkit.Until(t, "the replica has the order", func() bool { // it may need longer, on a busy machine
		o, err := g.OrdersOf(t.Context(), 2)
		if err != nil && !errors.Is(err, order.ErrUnavailable) {
			t.Fatalf("with the replica again: %v, %v", o, err)
		}
		return err == nil && len(o) == 1
	})
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
			if !errors.Is(err, order.ErrUnavailable) {
				t.Errorf("user %d was told %v", user, err)
			}
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
		if got := client.HGet(t.Context(), r.keys.Users, strconv.FormatInt(user, 10)).Val(); got != strconv.FormatInt(user, 10) {
			t.Errorf("order %d was promised, the new primary has %q", user, got)
		}
	}
	if len(promised) == 0 {
		t.Error("nothing was promised: this shows nothing")
	}
}

// An order that no replica has is persisted, and then a replica without it is promoted. The process that
// had the order accepted detects the loss. Otherwise its buyer, who got no answer, would be sold a second
// order, which the database would refuse.
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
	must(t, r.buy(g, 1, 11))
	link.Cut()
	if err := r.buy(g, 2, 21); !errors.Is(err, order.ErrUnavailable) {
		t.Fatalf("without a replica: %v", err)
	}
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
	wantErr(t, "a second order of a user whose first one Redis forgot", r.buy(g, 2, 22), order.ErrAlreadyOrdered)
	r.balanced(g, 2)
}

// A voucher is not opened under a new epoch before a replica knows that the one before is closed: if it were promoted
// then, processes that know nothing of the new epoch could tell buyers of orders under the old one.
func TestReopeningWaitsForReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicated(t, 10)
	g := r.process()
	must(t, g.Open(t.Context(), &r.store.voucher))
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
	must(t, g.Open(t.Context(), &r.store.voucher))
	if epoch := b.knownState().Epoch; epoch != 4 {
		t.Errorf("epoch %d, want 4", epoch)
	}
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
		must(t, r.buy(g, user, 100+user))
	}
	r.replica.Pause()
	wantErr(t, "without the replica", r.buy(g, users[10], 100+users[10]), order.ErrUnavailable)
	all := ledger.New(r.client, ledger.Options{}).States(t.Context(), r.buckets())
	if all[0].To[1] != 5 || all[1].From[0] != 0 || all[1].Stock != 0 {
		t.Errorf("given %d, received %d: want 5 and, as no replica has acknowledged it, 0", all[0].To[1], all[1].From[0])
	}
	r.resume()
	for _, user := range users[10:] {
		wantErr(t, "with it again", r.buy(g, user, 100+user), nil)
	}
	if moved := ledger.New(r.client, ledger.Options{}).States(t.Context(), r.buckets())[1].From[0]; moved != 5 {
		t.Errorf("%d received, want 5", moved)
	}
	r.takeAll()
	r.balanced(g, 15)
}
