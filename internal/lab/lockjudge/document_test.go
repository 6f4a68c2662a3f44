package lockjudge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit/fail"
)

// The gravest comes first, with its history; comforts do not count.
func TestReport(t *testing.T) {
	results := []lockjudge.Judged{
		{
			Grade: lockjudge.Exclusion, Behaviour: locktest.ReleasesOnlyOwn, Broken: "it was deleted",
			History: []lockjudge.Event{{At: 0, Who: "process 1", What: "release seat: released"}},
		},
		{Grade: lockjudge.Liveness, Behaviour: locktest.LeaseRunsOut},
		{Grade: lockjudge.Telling, Behaviour: locktest.ToldWhenDeleted, Untried: "no server\nand more"},
		{Grade: lockjudge.Comfort, Behaviour: locktest.Reenters, Broken: "it waits for itself"},
	}
	var out bytes.Buffer
	j := lockjudge.Judgement{Name: "mylock", Engine: "a server", Took: 3 * time.Second, Results: results}
	j.Compare(map[locktest.Behaviour]string{locktest.LeaseRunsOut: "breaks", locktest.ToldWhenDeleted: "holds"})
	fail.If(t, j.Report(&out))
	if err := j.Err(); !errors.Is(err, lockjudge.ErrBroken) || !strings.Contains(err.Error(), "releases-only-own") {
		t.Errorf("the verdict is %v", err)
	}
	last := -1
	for _, want := range []string{
		"mylock breaks what it promises: releases-only-own\n1 of 3 behaviours hold, in 3 s, on a server",
		"Since the last time: lease-runs-out holds now\n", "MUTUAL EXCLUSION", "releases-only-own breaks",
		"seen: it was deleted", "process 1  release seat: released", "COMFORT", "reenters breaks", "Held: lease-runs-out",
		"Not tried: told-when-deleted (no server)",
	} {
		at := strings.Index(out.String(), want)
		if at <= last {
			t.Errorf("%q is missing, or not where it belongs, in\n%s", want, out.String())
		}
		last = at
	}
	fail.Unequal(t, fmt.Sprint(lockjudge.Exclusion, lockjudge.Comfort), "mutual exclusion comfort", "the grades are called")
}

// What decides is the goal, or what the lock promises: not a comfort, nor what it leaves out, nor a sale that needs
// that.
func TestWhatDecides(t *testing.T) {
	breaks := func(name locktest.Behaviour, g lockjudge.Grade, leftOut bool) lockjudge.Judged {
		return lockjudge.Judged{Behaviour: name, Grade: g, Broken: "it was seen", LeftOut: leftOut}
	}
	comfort, held := breaks(locktest.Reenters, lockjudge.Comfort, false), lockjudge.Judged{Behaviour: locktest.ReleasesAtomically}
	leftOut, promised := breaks(locktest.SurvivesLongHold, lockjudge.Exclusion, true), breaks(locktest.LeaseRunsOut, lockjudge.Liveness, false)
	late := finding.Result{ID: lockjudge.SaleOneLate, Title: "one is late", Observed: finding.Breaks}
	for want, j := range map[string]lockjudge.Judgement{
		"x holds what it promises":                                 {Results: []lockjudge.Judged{comfort, held, leftOut}, Sales: []finding.Result{late}},
		"x breaks what it promises: lease-runs-out":                {Results: []lockjudge.Judged{comfort, held, promised}},
		"x breaks what it promises: the sale in which one is late": {Results: []lockjudge.Judged{held}, Sales: []finding.Result{late}},
		"x: releases-atomically holds":                             {Results: []lockjudge.Judged{held, promised}, Goal: locktest.ReleasesAtomically, Sales: []finding.Result{late}},
		"x: survives-long-hold breaks":                             {Results: []lockjudge.Judged{held, leftOut}, Goal: locktest.SurvivesLongHold},
		"x: renews-only-own was not tried: no watchdog":            {Results: []lockjudge.Judged{{Behaviour: locktest.RenewsOnlyOwn, Untried: "no watchdog\nat all"}}, Goal: locktest.RenewsOnlyOwn},
	} {
		j.Name = "x"
		fail.Unequal(t, j.Headline(), want, "the headline")
		if decided := j.Err(); (decided == nil) != strings.Contains(want, " holds") || decided != nil && !errors.Is(decided, lockjudge.ErrBroken) {
			t.Errorf("%s: %v", want, decided)
		}
	}
}

// The document has everything that the terminal shows, and the page has it, too.
func TestDocument(t *testing.T) {
	results := []lockjudge.Judged{
		{Grade: lockjudge.Exclusion, Behaviour: "releases-only-own", Broken: "it was <deleted>", History: []lockjudge.Event{{Who: "process 1", What: "release seat: released"}}},
		{Grade: lockjudge.Liveness, Behaviour: "lease-runs-out"},
		{Grade: lockjudge.Telling, Behaviour: "told-when-deleted", Untried: "no server"},
		{Grade: lockjudge.Comfort, Behaviour: "reenters", Broken: "it waits for itself"},
	}
	sale := finding.Result{
		ID: lockjudge.SaleOneLate, Title: "one is late", Observed: finding.Breaks, About: lockjudge.SaleKinds(), Orders: 23,
		Anomalies: map[finding.Kind]int{finding.Oversold: 3}, Answers: map[string]int{"created": 23},
		Witness: &finding.Witness{
			Kind: finding.Oversold, Summary: i18n.Plain("23 orders for 20 vouchers."), Actors: []string{"buyer 1"},
			Lanes: []finding.Lane{{Name: "buyer 1", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, To: 9}}}},
		},
	}
	d := lockjudge.NewDocument(&lockjudge.Judgement{Name: "mylock", Engine: "a server", Results: results, Sales: []finding.Result{sale}}, 3*time.Second)
	data, err := json.Marshal(d)
	fail.NowIf(t, err)
	var read struct {
		Broken     int
		Behaviours []struct{ Name, Grade, Seen, Untried string }
		Sales      []struct {
			Orders    int
			Anomalies map[string]int
			Witness   struct{ Summary string }
		}
	}
	fail.NowIf(t, json.Unmarshal(data, &read))
	if read.Broken != 1 || len(read.Behaviours) != 4 || read.Behaviours[0].Grade != "mutual exclusion" || read.Behaviours[2].Untried != "no server" {
		t.Errorf("the behaviours are %s", data)
	}
	if len(read.Sales) != 1 || read.Sales[0].Orders != 23 || read.Sales[0].Anomalies["oversold"] != 3 || read.Sales[0].Witness.Summary == "" {
		t.Errorf("the sales are %s", data)
	}
	var page bytes.Buffer
	fail.NowIf(t, d.Page(&page))
	fail.Without(t, page.String(),
		"mylock breaks what it promises: releases-only-own, the sale in which one is late", "1 of 3 behaviours hold", "it was &lt;deleted&gt;", "release seat: released", "lease-runs-out", "told-when-deleted: no server",
		"one is late", "23 orders for 20 vouchers.", "<svg",
	)
	var out bytes.Buffer
	if err := lockjudge.ReportSales(&out, []finding.Result{sale}); err != nil || !strings.Contains(out.String(), "one is late") {
		t.Errorf("%v: %s", err, out.String())
	}
	if shown := lockjudge.Shown([]finding.Result{{ID: "held"}, sale}); shown == nil || shown.Orders != 23 {
		t.Errorf("shown is %+v", shown)
	}
	if shown := lockjudge.Shown(nil); shown != nil {
		t.Errorf("of no sale %+v is shown", shown)
	}
}
