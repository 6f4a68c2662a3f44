package stage_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lab/stage"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

func policy(mechanism string) voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock, p.Scope, p.LockWaitMS = mechanism, voucher.ScopeVoucher, 15000
	return p
}

func TestSaleLeavesEvidence(t *testing.T) {
	for name, in := range map[string]*stage.House{"real": house, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			var needs []stage.Server
			if in == house {
				needs = real()
			}
			play(t, in, needs, func(s *stage.Stage) {
				api := s.API(0)
				p := policy("naive")
				p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 20}}
				sale := s.Sale(p, 5, api)
				sale.Observe()
				o := sale.Rush(load.Load{Buyers: 12, AtOnce: 12})
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
					if n != 0 {
						t.Errorf("%s: %d", kind, n)
					}
				}
				engine := s.Engine()
				if in == house && (!strings.HasPrefix(engine.Redis, "redis-server ") || !strings.HasPrefix(engine.Database, "MariaDB 1") || ev.Database != "MariaDB") ||
					in == embedded && (engine.Redis != "embedded (miniredis)" || ev.Database != "SQLite") || ev.LockStore != "Redis" {
					t.Errorf("engine: %+v; %q and %q", engine, ev.LockStore, ev.Database)
				}
			})
		})
	}
}

// checkEvents looks for a holder's whole way in the evidence, of each process.
func checkEvents(t *testing.T, ev judge.Evidence, processes int) {
	t.Helper()
	count, by := map[trace.Kind]int{}, map[string]bool{}
	for _, e := range ev.Events {
		count[e.Kind]++
		by[e.Process] = true
	}
	if count[trace.Acquired] < 5 || count[trace.Acquired] != count[trace.Released] || count[trace.Committed] != 5 {
		t.Errorf("events: %v", count)
	}
	if len(by) != processes || !by["api-1"] {
		t.Errorf("processes: %v", by)
	}
}

// checkSamples compares what was seen with who held the lock for 20 ms.
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
	if len(seen) < 6 { // five who bought, and nobody
		t.Errorf("owners seen: %v", seen)
	}
}

func TestDeadAndPausedProcesses(t *testing.T) {
	play(t, house, real(), func(s *stage.Stage) {
		api := s.API(2)
		first := []*stage.Instance{api[0], api[1]}
		p := policy("naive")
		p.LockTTLMS = 300
		p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 100}}
		sale := s.Sale(p, 5, api)
		store := sale.Observe()

		bought := sale.StartBuy(api[0], 1)
		took := sale.Await("buyer 1 has the lock", func(e trace.Event) bool { return e.Kind == trace.Acquired && e.User == 1 })
		api[0].Pause()
		store.Await("the lease runs out", func(x judge.Sample) bool { return x.At > took.At && x.Stored.Owner == "" })
		if a := sale.Buy(s.Context(), api[1], 2); a.Code != load.Created || a.Instance != "api-2" {
			t.Errorf("buyer 2: %+v", a)
		}
		api[0].Resume()
		if a := bought(); a.Code == load.Network {
			t.Errorf("buyer 1: %+v", a)
		}
		lost := sale.StartBuy(api[0], 3)
		sale.Await("buyer 3 has the lock", func(e trace.Event) bool { return e.Kind == trace.Acquired && e.User == 3 })
		api[0].Kill()
		if a := lost(); a.Code != load.Network {
			t.Errorf("buyer 3 was answered by the dead: %+v", a)
		}
		ev := sale.Evidence()
		if len(ev.Deaths) != 1 || ev.Deaths[0].Process != "api-1" || len(ev.Pauses) != 1 || ev.Pauses[0].To-ev.Pauses[0].From < int64(100*time.Millisecond) {
			t.Errorf("deaths %+v, pauses %+v", ev.Deaths, ev.Pauses)
		}
		if ev.Audit == nil || len(ev.Rows) != int(ev.Audit.Orders) {
			t.Errorf("the database: %+v, %+v", ev.Audit, ev.Rows)
		}
		if first[0].Alive() || !first[1].Alive() {
			t.Error("the wrong one died")
		}
	})
}

func TestHealthyProcessesAreUsedAgainAndOthersReplaced(t *testing.T) {
	const mine, others = "SECKILL_LOCK_WATCHDOG=7s", "SECKILL_LOCK_WATCHDOG=8s" // and nobody else's
	urls := func(spoil func(*stage.Stage, []*stage.Instance), env string) (all []string) {
		play(t, house, real(), func(s *stage.Stage) {
			api := s.API(2, env)
			for _, i := range api {
				all = append(all, i.URL)
			}
			spoil(s, api)
		})
		return all
	}
	good := func(*stage.Stage, []*stage.Instance) {}
	first := urls(good, mine)
	second := urls(func(_ *stage.Stage, api []*stage.Instance) { api[0].Kill() }, mine)
	if !slices.Equal(first, second) {
		t.Errorf("healthy ones were replaced: %v, %v", first, second)
	}
	third := urls(func(_ *stage.Stage, api []*stage.Instance) { api[1].Pause() }, mine)
	if third[0] == first[0] || third[1] != first[1] {
		t.Errorf("after a death: %v, before: %v", third, first)
	}
	if fourth := urls(good, mine); fourth[0] != third[0] || fourth[1] == third[1] {
		t.Errorf("after a pause: %v, before: %v", fourth, third)
	}
	if other := urls(good, others); slices.Contains(other, third[0]) {
		t.Error("a process with other settings was used")
	}
}

// A process that a fault kills is a death like another.
func TestProcessThatKillsItself(t *testing.T) {
	play(t, house, real(), func(s *stage.Stage) {
		api := s.API(1)
		p := policy("setnx")
		p.Faults = []lock.Fault{{Point: lock.HolderCrash, Effect: lock.EffectKill}}
		sale := s.Sale(p, 5, api)
		store := sale.Observe()
		if a := sale.Buy(s.Context(), api[0], 1); a.Code != load.Network {
			t.Errorf("answer: %+v", a)
		}
		s.Until("the death of "+api[0].Name, func() bool { return !api[0].Alive() })
		store.Await("the key stays", func(x judge.Sample) bool { return x.Stored.Owner != "" })
		ev := sale.Evidence()
		ev.Grace = time.Millisecond
		s.Pause(50 * time.Millisecond)
		ev.End = now()
		if j := judge.Judge(ev); j.Anomalies["stuck_keys"] != 1 || len(ev.Deaths) != 1 {
			t.Errorf("%v, %+v", j.Anomalies, ev.Deaths)
		}
	})
}

func TestEmbeddedIsOneProcess(t *testing.T) {
	skipped, err := embedded.Play(t.Context(), t.Name(), nil, func(s *stage.Stage) { s.API(2) })
	if err != nil || !strings.Contains(skipped, "2 API processes") {
		t.Errorf("skipped: %q, %v", skipped, err)
	}
}

// Settings of whoever runs the laboratory do not reach its processes.
func TestForeignSettingsAreKeptOut(t *testing.T) {
	t.Setenv("SECKILL_MYSQL_DSN", "root@tcp(192.0.2.1:3306)/production")
	t.Setenv("SECKILL_REDIS_ADDRS", "192.0.2.1:6379")
	play(t, embedded, nil, func(s *stage.Stage) {
		sale := s.Sale(policy("reentrant"), 1, s.API(1))
		if a := sale.Buy(s.Context(), s.API(1)[0], 1); a.Err != nil {
			t.Errorf("answer: %+v", a)
		}
	})
}

func TestRefusedVoucherEndsTheExperiment(t *testing.T) {
	_, err := embedded.Play(t.Context(), t.Name(), nil, func(s *stage.Stage) { s.Sale(policy("zk-node"), 1, s.API(1)) })
	if err == nil || !strings.Contains(err.Error(), "put a voucher on sale") {
		t.Errorf("err = %v", err)
	}
}

func TestSaleWithoutProcessesIsForActors(t *testing.T) {
	play(t, house, real(), func(s *stage.Stage) {
		sale := s.Sale(policy("reentrant"), 7, nil)
		sale.Listen(func() []trace.Event {
			return []trace.Event{{Key: sale.Key(1), Who: "a"}, {Key: "another"}, {Voucher: sale.Voucher, Who: "b"}, {Voucher: 1}}
		})
		ev := sale.Evidence()
		if ev.Audit == nil || ev.Audit.Stock != 7 || ev.Rows == nil || len(ev.Events) != 2 {
			t.Errorf("audit %+v, rows %v, events %+v", ev.Audit, ev.Rows, ev.Events)
		}
	})
}

func TestCommandsAreCounted(t *testing.T) {
	play(t, house, []stage.Server{stage.Redis}, func(s *stage.Stage) {
		own := s.OwnRedis()
		client := own.Client(s)
		before := s.Commands(own)
		for range 5 {
			if err := client.Set(s.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if came := s.Commands(own).Since(before); came["set"] != 5 || came.Total() < 5 {
			t.Errorf("commands: %v", came)
		}
		before = s.Commands(nil)
		if came := s.Commands(nil).Since(before); came.Total() != 0 {
			t.Errorf("asking counts: %v", came)
		}
	})
}

func TestLocksOnOtherServers(t *testing.T) {
	for _, mechanism := range []string{"red", "multi", "mysql-row-expiry", "mysql-get-lock", "zk-queue"} {
		t.Run(mechanism, func(t *testing.T) {
			play(t, house, append(real(), stage.Nodes, stage.ZooKeeper), func(s *stage.Stage) {
				p := policy(mechanism)
				p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 30}}
				sale := s.Sale(p, 3, s.API(0))
				sale.Observe()
				o := sale.Rush(load.Load{Buyers: 5})
				ev := sale.Evidence()
				if o.Answers[load.Created] != 3 || ev.Audit.Orders != 3 {
					t.Errorf("answers: %v, audit: %+v", o.Answers, ev.Audit)
				}
				if ev.LockStore != stage.LockStore(mechanism) || s.Engine().ZooKeeper == "" {
					t.Errorf("lock store %q, engine %+v", ev.LockStore, s.Engine())
				}
				owners := map[string]bool{}
				for _, x := range ev.Samples {
					owners[x.Stored.Owner] = true
				}
				t.Logf("%s: %d owners, %d samples, judged %v", mechanism, len(owners), len(ev.Samples), judge.Judge(ev).Anomalies)
				if len(owners) < 4 {
					t.Errorf("owners seen: %v", owners)
				}
			})
		})
	}
}

func now() int64 { return time.Now().UnixNano() }

// The same seed has the same users suffer, whoever comes first and wherever.
func TestSeedDecidesWhomAFaultStrikes(t *testing.T) {
	struck := func() (users []int64) {
		play(t, house, real(), func(s *stage.Stage) {
			p := policy("reentrant")
			p.Faults = []lock.Fault{{Point: lock.CriticalSection, Effect: lock.EffectError, Probability: 0.5}}
			o := s.Sale(p, 40, s.API(0)).Rush(load.Load{Buyers: 40, AtOnce: 20})
			for _, a := range o.All {
				if a.Code != load.Created {
					users = append(users, a.User)
				}
			}
		})
		slices.Sort(users)
		return users
	}
	first := struck()
	if len(first) < 5 || len(first) > 35 {
		t.Errorf("%d of 40 were struck", len(first))
	}
	if again := struck(); !slices.Equal(first, again) {
		t.Errorf("struck first %v, then %v", first, again)
	}
}

func TestExperimentsSideBySide(t *testing.T) {
	for range 4 {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			play(t, house, real(), func(s *stage.Stage) {
				sale := s.Sale(policy("fair"), 5, s.API(2))
				sale.Observe()
				sale.Rush(load.Load{Buyers: 10})
				if ev := sale.Evidence(); ev.Audit.Orders != 5 || len(ev.Acks) != 5 {
					t.Errorf("audit %+v, %d acks", ev.Audit, len(ev.Acks))
				}
			})
		})
	}
}
