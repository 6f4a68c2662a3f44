package testbed_test

import (
	"slices"
	"strings"
	"testing"

	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func real() []testbed.Server { return []testbed.Server{testbed.RedisServer, testbed.Database} }

func policy(mechanism string) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock, p.Scope, p.LockWaitMS = mechanism, voucher.ScopeVoucher, 15000
	return p
}

func TestSaleLeavesEvidence(t *testing.T) {
	for name, in := range map[string]*testbed.Environment{"real": env, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			var needs []testbed.Server
			if in == env {
				needs = real()
			}
			runScenario(t, in, needs, func(r *testbed.Rig) {
				api := r.API(0)
				p := policy("naive")
				p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 100}}
				sale := r.Sale(p, 5, api)
				sale.Observe()
				o := sale.SendLoad(load.Load{Buyers: 12, Concurrency: 12})
				ev := sale.Evidence()

				if o.Requests != 12 || o.Answers[load.Created] != 5 || o.Answers["sold_out"] != 7 {
					t.Errorf("answers: %v", o.Answers)
				}
				if ev.Audit == nil || ev.Audit.Orders != 5 || ev.Audit.Stock != 0 || ev.Audit.InitialStock != 5 || !ev.Audit.Balanced() {
					t.Errorf("audit: %+v", ev.Audit)
				}
				if len(ev.Acks) != 5 || len(ev.Rows) != 5 {
					t.Errorf("%d acks, %d rows", len(ev.Acks), len(ev.Rows))
				}
				for _, a := range ev.Acks {
					if !slices.ContainsFunc(ev.Rows, func(o order.Order) bool { return o.ID == a.Order && o.UserID == a.User }) {
						t.Errorf("%+v is not among %+v", a, ev.Rows)
					}
				}
				checkEvents(t, ev, len(api))
				checkSamples(t, ev, sale.Key(1))
				j := judge.Judge(ev)
				for kind, n := range j.Anomalies {
					fail.Unequal(t, n, 0, "%s", kind)
				}
				engine := r.Engine()
				if in == env && (!strings.HasPrefix(engine.Redis, "redis-server ") || !strings.HasPrefix(engine.Database, "MariaDB 1") || ev.Database != "MariaDB") ||
					in == embedded && (engine.Redis != "embedded (miniredis)" || ev.Database != "SQLite") || ev.LockStore != "Redis" {
					t.Errorf("engine: %+v; %q and %q", engine, ev.LockStore, ev.Database)
				}
			})
		})
	}
}

// checkEvents looks for a whole acquisition in the events of each process.
func checkEvents(t *testing.T, ev judge.Evidence, processes int) {
	t.Helper()
	count, by := map[eventlog.Kind]int{}, map[string]bool{}
	for _, e := range ev.Events {
		count[e.Kind]++
		by[e.Process] = true
	}
	if count[eventlog.Acquired] < 5 || count[eventlog.Acquired] != count[eventlog.Released] || count[eventlog.Committed] != 5 {
		t.Errorf("events: %v", count)
	}
	if len(by) != processes || !by["api-1"] {
		t.Errorf("processes: %v", by)
	}
}

// checkSamples compares the samples with the holder of the lock for 100 ms.
func checkSamples(t *testing.T, ev judge.Evidence, key string) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range ev.Samples {
		if s.Key != key || s.Err != "" {
			t.Errorf("sample: %+v", s)
		}
		seen[s.Stored.Owner] = true
	}
	if first, last := ev.Samples[0], ev.Samples[len(ev.Samples)-1]; first.Stored.Owner != "" || last.Stored.Owner != "" {
		t.Errorf("it was not free first and last: %+v, %+v", first, last)
	}
	if len(seen) < 6 { // five that bought, and nobody
		t.Errorf("owners seen: %v", seen)
	}
}

func TestHealthyProcessesAreUsedAgainAndOthersReplaced(t *testing.T) {
	const mine, others = "SECKILL_LOCK_WATCHDOG=7s", "SECKILL_LOCK_WATCHDOG=8s" // and nobody else's
	processes := func(spoil func([]*testbed.Instance), setting string) (api []*testbed.Instance) {
		runScenario(t, env, real(), func(r *testbed.Rig) {
			api = r.API(2, setting)
			spoil(api)
		})
		return api
	}
	good := func([]*testbed.Instance) {}
	first := processes(good, mine)
	second := processes(func(api []*testbed.Instance) { testbed.Kill(api[0]) }, mine)
	if !slices.Equal(first, second) {
		t.Errorf("healthy ones were replaced: %v, %v", first, second)
	}
	third := processes(good, mine)
	if third[0] == first[0] || third[1] != first[1] {
		t.Errorf("after a death: %v, before: %v", third, first)
	}
	if other := processes(good, others); slices.Contains(other, third[0]) {
		t.Error("a process with other settings was used")
	}
}

func TestEmbeddedIsOneProcess(t *testing.T) {
	testkit.Servers(t)
	skipped, err := embedded.WithRig(t.Context(), t.Name(), nil, func(r *testbed.Rig) { r.API(2) })
	if err != nil || !strings.Contains(skipped.String(), "2 API processes") {
		t.Errorf("skipped: %q, %v", skipped, err)
	}
}

// The settings of the laboratory's own process do not reach the API processes.
func TestForeignSettingsAreKeptOut(t *testing.T) {
	t.Setenv("SECKILL_MYSQL_DSN", "root@tcp(192.0.2.1:3306)/production")
	t.Setenv("SECKILL_REDIS_ADDRS", "192.0.2.1:6379")
	runScenario(t, embedded, nil, func(r *testbed.Rig) {
		sale := r.Sale(policy("reentrant"), 1, r.API(1))
		if a := sale.Buy(r.Context(), r.API(1)[0], 1); a.Err != nil {
			t.Errorf("answer: %+v", a)
		}
	})
}

func TestRefusedVoucherEndsTheExperiment(t *testing.T) {
	testkit.Servers(t)
	_, err := embedded.WithRig(t.Context(), t.Name(), nil, func(r *testbed.Rig) { r.Sale(policy("zk-node"), 1, r.API(1)) })
	if err == nil || !strings.Contains(err.Error(), "put a voucher on sale") {
		t.Errorf("err = %v", err)
	}
}

func TestCommandsAreCounted(t *testing.T) {
	testkit.Servers(t)
	runScenario(t, env, []testbed.Server{testbed.Redis}, func(r *testbed.Rig) {
		own := r.OwnRedis()
		client := own.Client(r)
		before := r.Commands(own)
		for range 5 {
			fail.NowIf(t, client.Set(r.Context(), "k", "v", 0).Err())
		}
		if came := r.Commands(own).Since(before); came["set"] != 5 || came.Total() < 5 {
			t.Errorf("commands: %v", came)
		}
		// Asking does not count. Other processes may send something in between, now and then.
		testkit.Until(t, "two questions with nothing between them", func() bool {
			before := r.Commands(nil)
			return r.Commands(nil).Since(before).Total() == 0
		})
	})
}
