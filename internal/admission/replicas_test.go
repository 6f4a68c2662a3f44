package admission

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// replicated is a voucher on a primary with one replica, which can be stopped.
type replicated struct {
	*stage
	primary, replica *testkit.RedisServer
}

func newReplicated(t *testing.T, stock int64) *replicated {
	t.Helper()
	r := &replicated{primary: testkit.NewRedis(t)}
	r.replica = testkit.NewRedisReplica(t, r.primary)
	inStep(t, r.primary.Addr())
	r.stage = newStage(t, r.primary.Addr(), stock)
	r.config.WaitReplicas = 1
	r.config.AttemptTimeout, r.config.Patience = 200*time.Millisecond, time.Second
	return r
}

// inStep waits until a primary has heard from its replica: for up to a second after the
// replica is in step it has not.
func inStep(t *testing.T, addr string) {
	t.Helper()
	client := dial(t, addr)
	// There has to be something to acknowledge. A node of a cluster takes what is its own.
	for n := 0; client.Set(t.Context(), "probe"+strconv.Itoa(n), 1, time.Second).Err() != nil && n < 100; n++ {
		continue
	}
	eventually(t, "a replica that acknowledges", func() bool {
		replica := client.InfoMap(t.Context(), "replication").Item("Replication", "slave0")
		return strings.Contains(replica, "state=online") && !strings.Contains(replica, "offset=0,")
	})
}

// process is a gate of its own, with connections of its own.
func (r *replicated) process() *Gate {
	r.t.Helper()
	c := r.config
	c.Client = dial(r.t, r.addr)
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		r.t.Fatal(err)
	}
	g := newGate(c, newServer(c.Client).waiting(c))
	r.t.Cleanup(func() { _ = g.Close() })
	return g
}

// writes is how much the primary has written. (WAIT itself moves the offset of what it
// sends to replicas.)
func (r *replicated) writes() string {
	r.t.Helper()
	n := r.client.InfoMap(r.t.Context(), "persistence").Item("Persistence", "rdb_changes_since_last_save")
	if n == "" {
		r.t.Fatal("the server does not say how much it has written")
	}
	return n
}

// A call counts when the replica has what it wrote, and also what another connection
// wrote about the same orders; refusals count at once.
func TestCallWaitsForReplicas(t *testing.T) {
	r := newReplicated(t, 2)
	g := r.process()
	if err := g.Open(t.Context(), &r.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	epoch := r.shelf.standing.Epoch
	ask := func(rides ...*ride) (answer, error) {
		server := newServer(dial(t, r.addr)).waiting(g.config) // another connection
		return server.decide(t.Context(), &call{
			keys: r.keys, seen: seen{epoch: epoch}, bound: 100, expiry: time.Now().Add(time.Hour).UnixMilli(), batch: rides,
		})
	}
	one, other := &ride{userID: 1, orderID: 11}, &ride{userID: 1, orderID: 12}
	if a, err := ask(one); a.states != "a" || err != nil {
		t.Fatalf("with a replica: %+v, %v", a, err)
	}
	r.replica.Pause()
	two := &ride{userID: 2, orderID: 21}
	a, err := ask(two)
	if a.states != "a" || !errors.Is(err, errUnacknowledged) || harmless(err) {
		t.Errorf("without one: %+v, %v", a, err)
	}
	before := r.writes()
	if a, err = ask(two); a.states != "r" || a.seq != 2 || !errors.Is(err, errUnacknowledged) {
		t.Errorf("the same again: %+v, %v", a, err)
	}
	if r.writes() == before {
		t.Error("a repetition writes nothing that a replica could acknowledge")
	}
	if a, err = ask(other, &ride{userID: 3, orderID: 31}); a.states != "os" || err != nil {
		t.Errorf("refusals: %+v, %v", a, err)
	}
	r.replica.Resume()
	if a, err = ask(two); a.states != "r" || err != nil {
		t.Errorf("with the replica again: %+v, %v", a, err)
	}
}

// Who buys while the replica does not answer is told that the outcome is not known; and
// is told of his order, the one there is, once it does.
func TestOrderWithoutReplicaIsNotPromised(t *testing.T) {
	r := newReplicated(t, 10)
	g := r.process()
	if err := r.buy(g, 1, 11); err != nil {
		t.Fatal(err)
	}
	r.replica.Pause()
	begun := time.Now()
	if err := r.buy(g, 2, 21); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("without a replica: %v", err)
	}
	if took := time.Since(begun); took < g.config.Patience || took > 2*g.config.Patience {
		t.Errorf("it took %v to give up", took)
	}
	there := order.Order{ID: 21, UserID: 2, VoucherID: r.shelf.voucher.ID}
	if err := g.kept(t.Context(), r.keys, there); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("an order that no replica has: %v", err)
	}
	r.replica.Resume()
	if err := g.kept(t.Context(), r.keys, there); err != nil {
		t.Errorf("an order that the replica has: %v", err)
	}
	there.ID = 22
	if err := g.kept(t.Context(), r.keys, there); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("an order that is not there: %v", err)
	}
	if err := r.buy(r.process(), 2, 21); err != nil {
		t.Errorf("the same again: %v", err)
	}
	finish := r.run()
	finish()
	r.balanced(g, 2)
}

// Who is refused does not wait for the replica because somebody in his batch does; and who
// asks what he has is told of nothing that the replica does not have.
func TestOnlyOrdersWaitForReplicas(t *testing.T) {
	r := newReplicated(t, 2)
	g := r.process()
	if err := r.buy(g, 1, 11); err != nil {
		t.Fatal(err)
	}
	if o, err := g.OrdersOf(t.Context(), 1); err != nil || len(o) != 1 || o[0].ID != 11 {
		t.Errorf("with a replica: %v, %v", o, err)
	}
	r.replica.Pause()
	riding := func(user, id int64) *ride { return g.rides.get(t.Context(), order.Order{ID: id, UserID: user}) }
	begun, done := time.Now(), make(chan error, 1)
	last, again, none := riding(2, 21), riding(1, 12), riding(3, 31)
	go func() { done <- g.pool(&r.shelf.voucher).line(1).decide([]*ride{last, again, none}) }()
	if err := <-again.done; !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order: %v", err)
	}
	if err := <-none.done; !errors.Is(err, voucher.ErrSoldOut) {
		t.Errorf("after the last one: %v", err)
	}
	if took := time.Since(begun); took >= g.config.Patience {
		t.Errorf("refused after %v", took)
	}
	if o, err := g.OrdersOf(t.Context(), 2); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("who has an order that the replica does not have: %v, %v", o, err)
	}
	if err := <-last.done; !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("whose order it is: %v", err)
	}
	if err := <-done; !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("the batch: %v", err)
	}
	r.replica.Resume()
	if o, err := g.OrdersOf(t.Context(), 2); err != nil || len(o) != 1 {
		t.Errorf("with the replica again: %v, %v", o, err)
	}
}

// The replica that is promoted has everything that was promised.
func TestPromotedReplicaHasWhatWasPromised(t *testing.T) {
	r := newReplicated(t, 1000)
	g := r.process()
	var promised []int64
	stopped := make(chan struct{})
	go func() {
		time.Sleep(20 * time.Millisecond)
		r.replica.Pause()
		close(stopped)
	}()
	for user := int64(1); ; user++ {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := g.Admit(ctx, &r.shelf.voucher, order.Order{ID: user, UserID: user, VoucherID: r.shelf.voucher.ID})
		cancel()
		if err != nil {
			if !errors.Is(err, order.ErrUnavailable) {
				t.Errorf("user %d was told %v", user, err)
			}
			break
		}
		promised = append(promised, user)
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

// An order that no replica had is persisted all the same, and the replica is promoted that
// does not have it. The process that had it accepted notices; else its buyer, who was told
// nothing, would be sold another one that the database refuses.
func TestWhatNobodyAcknowledgedIsMissed(t *testing.T) {
	primary, replica := testkit.NewRedis(t), testkit.NewRedis(t)
	link, door := testkit.NewProxy(t, primary.Addr()), testkit.NewProxy(t, primary.Addr())
	replica.ReplicaOf(link.Addr())
	inStep(t, primary.Addr())
	r := &replicated{stage: newStage(t, door.Addr(), 10)}
	r.config.WaitReplicas = 1
	r.config.AttemptTimeout, r.config.Patience = 200*time.Millisecond, time.Second
	g := r.process()
	if err := r.buy(g, 1, 11); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	if err := r.buy(g, 2, 21); !errors.Is(err, order.ErrUnavailable) {
		t.Fatalf("without a replica: %v", err)
	}
	r.takeAll()
	primary.Kill()
	replica.Promote()
	door.Lead(replica.Addr())
	testkit.NewRedisReplica(t, replica)
	inStep(t, replica.Addr())
	finish := r.run()
	eventually(t, "an answer", func() bool {
		err := r.buy(g, 2, 22)
		if err != nil && !errors.Is(err, order.ErrUnavailable) && !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("told %v", err)
		}
		return !errors.Is(err, order.ErrUnavailable)
	})
	finish()
	if err := r.buy(g, 2, 22); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order of a user whose first one Redis forgot: %v", err)
	}
	r.balanced(g, 2)
}

func TestConfigOfReplicas(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 1)
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"fewer than none", func(c *Config) { c.WaitReplicas = -1 }, "WaitReplicas"},
		{"no time", func(c *Config) { c.WaitReplicas, c.WaitTimeout = 1, time.Microsecond }, "WaitTimeout"},
		{"as long as an attempt", func(c *Config) { c.WaitReplicas, c.WaitTimeout = 1, time.Second }, "WaitTimeout"},
		{"half of too little", func(c *Config) { c.WaitReplicas, c.AttemptTimeout = 1, time.Millisecond }, "WaitTimeout"},
		{"not asked for", func(c *Config) { c.AttemptTimeout = time.Millisecond }, ""},
		{"as it comes", func(c *Config) { c.WaitReplicas = 1 }, ""},
	} {
		c := s.config
		tc.change(&c)
		err := c.WithDefaults().Validate()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
