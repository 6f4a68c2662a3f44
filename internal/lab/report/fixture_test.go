package report_test

import (
	"encoding/json"
	"fmt"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
)

// wrongRelease is the naive lock: a chain of holders that delete each other's locks.
func wrongRelease() finding.Witness {
	a, b, c := "buyer 17 (api-1)", "buyer 18 (api-2)", "buyer 21 (api-1)"
	return finding.Witness{
		Kind: finding.WrongReleases, Key: "stock:1",
		Summary: i18n.Plain("buyer 17 works for 400 ms with a lease of 100 ms. At 101 ms the key is gone and buyer 18 gets the lock; at 402 ms buyer 17 deletes it, " +
			"which lets buyer 21 in while buyer 18 still works."),
		Lanes: []finding.Lane{
			{Name: a, Role: finding.Actor, Spans: []finding.Span{
				{Kind: finding.Waits, From: 0, To: 3}, {Kind: finding.Held, From: 3, To: 101}, {Kind: finding.Believes, From: 101, To: 402, Wrong: true},
			}, Marks: []finding.Mark{
				{Kind: finding.ReadsStock, At: 5, Label: i18n.Plain("reads 5")}, {Kind: finding.WritesStock, At: 396, Label: i18n.Plain("writes 4")},
				{Kind: finding.Releases, At: 402, Label: i18n.Plain("DEL"), Wrong: true},
			}},
			{Name: b, Role: finding.Actor, Spans: []finding.Span{
				{Kind: finding.Waits, From: 10, To: 104}, {Kind: finding.Held, From: 104, To: 403}, {Kind: finding.Believes, From: 403, To: 505, Wrong: true},
			}, Marks: []finding.Mark{
				{Kind: finding.ReadsStock, At: 106, Label: i18n.Plain("reads 5")}, {Kind: finding.WritesStock, At: 497, Label: i18n.Plain("writes 4")},
				{Kind: finding.Releases, At: 505, Label: i18n.Plain("DEL")},
			}},
			{Name: c, Role: finding.Actor, Spans: []finding.Span{
				{Kind: finding.Waits, From: 30, To: 406}, {Kind: finding.Held, From: 406, To: 560, Open: true, Wrong: true},
			}, Marks: []finding.Mark{{Kind: finding.ReadsStock, At: 409, Label: i18n.Plain("reads 4")}}},
			{Name: "Redis", Role: finding.LockStore, Spans: []finding.Span{
				{Kind: finding.Stored, From: 2, To: 101, Who: a}, {Kind: finding.Stored, From: 104, To: 402, Who: b},
				{Kind: finding.Stored, From: 406, To: 505, Who: c},
			}, Marks: []finding.Mark{
				{Kind: finding.Expires, At: 101, Label: i18n.Plain("runs out"), Who: a},
				{Kind: finding.Deletes, At: 402, Label: i18n.Plain("buyer 17 deletes buyer 18's"), Who: b, Wrong: true},
				{Kind: finding.Deletes, At: 505, Label: i18n.Plain("buyer 18 deletes buyer 21's"), Who: c, Wrong: true},
			}},
			{Name: "MariaDB", Role: finding.Database, Marks: []finding.Mark{
				{Kind: finding.WritesStock, At: 400, Label: i18n.Plain("stock 5→4"), Who: a},
				{Kind: finding.WritesStock, At: 502, Label: i18n.Plain("stock 4→4: the other sale is lost"), Who: b, Wrong: true},
			}},
		},
	}
}

// paused is a process that is paused while its lease runs out.
func paused(fenced bool) finding.Witness {
	a, b := "buyer 3 (api-1)", "buyer 4 (api-2)"
	w := finding.Witness{
		Kind: finding.StaleWrites, Key: "stock:2",
		Summary: i18n.Plain("The process of buyer 3 stands still from 60 to 900 ms. Its lease is over at 310 ms, buyer 4 gets the lock and sells; buyer 3 wakes, believes still, and writes over it."),
		Lanes: []finding.Lane{
			{Name: a, Role: finding.Actor, Spans: []finding.Span{
				{Kind: finding.Held, From: 10, To: 925, Wrong: !fenced}, {Kind: finding.Paused, From: 60, To: 900},
			}, Marks: []finding.Mark{{Kind: finding.ReadsStock, At: 14, Label: i18n.Plain("reads 9")}, {Kind: finding.WritesStock, At: 905, Label: i18n.Plain("writes 8 with token 33"), Wrong: !fenced}}},
			{Name: b, Role: finding.Actor, Spans: []finding.Span{
				{Kind: finding.Waits, From: 80, To: 312}, {Kind: finding.Held, From: 312, To: 341, Wrong: !fenced},
			}, Marks: []finding.Mark{{Kind: finding.ReadsStock, At: 315, Label: i18n.Plain("reads 9")}, {Kind: finding.WritesStock, At: 330, Label: i18n.Plain("writes 8 with token 34")}, {Kind: finding.Releases, At: 341, Label: i18n.Plain("releases")}}},
			{Name: "redis-server 7.0", Role: finding.LockStore, Spans: []finding.Span{
				{Kind: finding.Stored, From: 9, To: 310, Who: a, Label: i18n.Plain("token 33")}, {Kind: finding.Stored, From: 312, To: 342, Who: b, Label: i18n.Plain("token 34")},
			}, Marks: []finding.Mark{{Kind: finding.Expires, At: 310, Label: i18n.Plain("expired")}}},
			{Name: "MariaDB", Role: finding.Database, Marks: []finding.Mark{
				{Kind: finding.WritesStock, At: 334, Label: i18n.Plain("stock 9→8"), Who: b},
				{Kind: finding.WritesStock, At: 910, Label: i18n.Plain("stock 8→8"), Who: a, Wrong: true},
			}},
			{Name: "signals", Role: finding.Fault, Marks: []finding.Mark{
				{Kind: finding.Notes, At: 60, Label: i18n.Plain("SIGSTOP to api-1")}, {Kind: finding.Notes, At: 900, Label: i18n.Plain("SIGCONT to api-1")},
			}},
		},
	}
	if fenced {
		w.Kind = ""
		w.Summary = i18n.Plain("As before, but the database has seen token 34 when buyer 3 writes with token 33, and refuses.")
		db := &w.Lanes[3]
		db.Marks[1] = finding.Mark{Kind: finding.Refuses, At: 910, Label: i18n.Plain("33 < 34: refused"), Who: a}
	}
	return w
}

// crowd has many of everything at nearly the same time, and long names.
func crowd() finding.Witness {
	w := finding.Witness{
		Kind: finding.Herds, Key: "/seckill/locks/stock:77",
		Summary: i18n.Plain("One release wakes nine waiters, of which one gets the lock and eight go back to sleep."),
	}
	var store finding.Lane
	for i := range 9 {
		name := fmt.Sprintf("buyer %d (api-process-%d)", 100+i, i%3+1)
		lane := finding.Lane{Name: name, Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Waits, From: float64(i), To: 80 + float64(i), Open: i > 0}}}
		if i == 0 {
			lane.Spans = []finding.Span{{Kind: finding.Held, From: 0, To: 40}}
			lane.Marks = []finding.Mark{{Kind: finding.Releases, At: 40}}
		} else {
			lane.Marks = []finding.Mark{
				{Kind: finding.Wakes, At: 40.2 + float64(i)/10, Label: i18n.Plain("woken by the node that went"), Wrong: i > 1},
				{Kind: finding.Notes, At: 40.9 + float64(i)/10, Label: i18n.Plain("lists the children")},
				{Kind: finding.Refuses, At: 41.3 + float64(i)/10, Label: i18n.Plain("not the first one in the queue")},
			}
		}
		w.Lanes = append(w.Lanes, lane)
		store.Spans = append(store.Spans, finding.Span{Kind: finding.Stored, From: float64(i), To: float64(i) + 1, Who: name})
		store.Marks = append(store.Marks, finding.Mark{Kind: finding.Notes, At: 40 + float64(i)/5, Label: i18n.Plain("getChildren " + fmt.Sprint(i)), Who: name})
	}
	store.Name, store.Role = "ZooKeeper ensemble of three, the leader", finding.LockStore
	w.Lanes = append(w.Lanes, store)
	return w
}

// killed has a holder that dies and a database that is cut off, and readers.
func killed() finding.Witness {
	return finding.Witness{
		Kind: finding.StuckKeys, Key: "order:3:9",
		Summary: i18n.Plain("api-1 is killed at 12.5 ms; its key stays, since nothing will ever take it away."),
		Lanes: []finding.Lane{
			{Name: "buyer 9 (api-1)", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, From: 1.25, To: 12.5}, {Kind: finding.Down, From: 12.5, To: 30, Open: true}},
				Marks: []finding.Mark{{Kind: finding.Killed, At: 12.5, Label: i18n.Plain("SIGKILL")}}},
			{Name: "reader 1", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Reads, From: 3, To: 22, Label: i18n.Plain("as a reader")}},
				Marks: []finding.Mark{{Kind: finding.Told, At: 22, Label: i18n.Plain("lost: the session has ended")}}},
			{Name: "buyer 9 (api-2)", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Waits, From: 15, To: 30, Open: true, Wrong: true}}},
			{Name: "Redis", Role: finding.LockStore, Spans: []finding.Span{{Kind: finding.Stored, From: 1, To: 30, Open: true, Who: "buyer 9 (api-1)", Wrong: true, Label: i18n.Plain("no expiry")}}},
		},
	}
}

func latency() *finding.Latency {
	l := &finding.Latency{Count: 400, PerSecond: 812.4, P50MS: 12.4, P90MS: 97.1, P99MS: 403.2, MaxMS: 512}
	for i, n := range []int{12, 40, 88, 121, 60, 33, 20, 12, 6, 5, 2, 1} {
		l.Buckets = append(l.Buckets, finding.Bucket{UpToMS: float64(int(1) << i), Count: n})
	}
	return l
}

// sample is a report of 45 experiments: all outcomes, all kinds of picture.
func sample() report.Report {
	r := report.Report{
		Started: time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC), Took: 214*time.Second + 300*time.Millisecond,
		Machine: "linux/amd64, 2 cores", Seed: 7, Command: "go run ./cmd/lab run all --seed 7 --report out",
		Engine: finding.Engine{Redis: "redis-server 7.0.15", Database: "MariaDB 10.11.14", ZooKeeper: "ZooKeeper 3.8.0"},
	}
	groups := []string{
		"A lock without an owner deletes the next one's lock", "A process that stands still", "A herd is woken for one lock",
		"A holder dies", "No lock at all", "The lease is too short",
	}
	for i := range 45 {
		pair := i / 2
		e := report.Entry{
			Hypothesis:  "A holder whose lease has run out deletes the lock of the next one when it releases, and so lets a third one in.",
			Arrangement: "Two API processes, one voucher with 5 in stock, 40 buyers at once; the first one works for 400 ms with a lease of 100 ms.",
			Why: "The release is a bare DEL: it takes away whatever is there. The lease ran out, somebody else got the key, and the first holder deleted it without looking. " +
				"A release that compares the owner first would have found somebody else's name.",
			Cure:    "Compare and delete in one step, with a script.",
			Sources: []report.Source{{Document: "Redisson in detail", Section: "Deleting somebody else's lock"}, {Document: "The evolution of Redis locks", Section: "The Lua script"}},
			Setup:   json.RawMessage(`{"policy":{"flow":"locked","lock":"naive","lock_ttl_ms":100,"stock":"unguarded"}}`),
		}
		e.Result = finding.Result{
			ID: fmt.Sprintf("experiment-%02d", i), Group: fmt.Sprintf("%s (%d)", groups[pair%len(groups)], pair+1), Lock: "naive", DurationMS: 2340 + int64(i),
			Title: fmt.Sprintf("Experiment %d: the holder's lease runs out and it deletes the next one's lock", i), Requests: 400, Orders: 5,
			Expect: finding.Breaks, Observed: finding.Breaks, AsExpected: true, About: []finding.Kind{finding.WrongReleases, finding.Overlaps},
			Anomalies: map[finding.Kind]int{finding.WrongReleases: 3 + i, finding.Overlaps: 1200 + i, finding.LostUpdates: 2},
			Answers:   map[string]int{"created": 5, "sold_out": 300, "busy": 95}, Latency: latency(), Seed: 7,
			Measures: []finding.Measure{{Name: i18n.Plain("longest overlap"), Value: 301.4, Unit: i18n.Plain("ms")}, {Name: i18n.Plain("porcupine: illegal"), Value: 1}, {Name: i18n.Plain("commands for each grant"), Value: 4.25}},
			Command:  fmt.Sprintf("go run ./cmd/lab run experiment-%02d --seed 7", i), Engine: r.Engine,
		}
		partner := i ^ 1
		e.Partner = fmt.Sprintf("experiment-%02d", partner)
		wit := []finding.Witness{wrongRelease(), paused(i%2 == 1), crowd(), killed()}[pair%4]
		e.Result.Witness = &wit
		if i%2 == 1 {
			e.Result.Expect, e.Result.Observed, e.Cure = finding.Holds, finding.Holds, ""
			if i%4 == 3 {
				e.Result.About = nil
			}
			e.Result.Anomalies = map[finding.Kind]int{finding.TurnedAway: 12 * (i % 4 % 3)}
		}
		r.Entries = append(r.Entries, e)
	}
	r.Entries[0].Result.More = []finding.Witness{paused(false)}
	r.Entries[0].K6 = "k6 run -e LOCK=naive -e LOCK_TTL_MS=100 -e FAULT=critical-section -e BASE_URL=http://127.0.0.1:8080 loadtest/seckill.js"
	odd := &r.Entries[10].Result
	odd.Observed, odd.AsExpected, odd.Anomalies = finding.Holds, false, nil
	failed := &r.Entries[13].Result
	failed.Observed, failed.AsExpected, failed.Witness, failed.Latency, failed.Failed = "", false, nil, nil, "api-2 did not start: exit status 1"
	skipped := &r.Entries[20].Result
	skipped.Observed, skipped.AsExpected, skipped.Witness, skipped.Latency, skipped.Skipped = "", false, nil, nil, "ZooKeeper is not installed"
	return r
}
