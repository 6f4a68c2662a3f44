package lockjudge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/tell"
	"seckill/internal/lab/testbed"
)

// sold sells under a lock of the project, on a Redis of its own.
func sold(t *testing.T, env *testbed.Environment, name string, lease time.Duration) (sales []finding.Result) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = env.Run(t.Context(), name, nil, func(r *testbed.Run) {
		addr, _ := r.AnyRedis()
		sales, err = lockjudge.Sell(r, lockjudge.SaleOptions{
			Command: []string{"/usr/bin/env", lockEnv + "=" + name, self}, Redis: addr, Lease: lease,
		})
		if err != nil {
			r.Errorf("%w", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sales) != 2 || sales[0].ID != lockjudge.SaleInTime || sales[1].ID != lockjudge.SaleOneLate {
		t.Fatalf("%d sales: %+v", len(sales), sales)
	}
	for _, s := range sales {
		t.Logf("%s: %d orders, %v, answers %v", s.ID, s.Orders, s.Anomalies, s.Answers)
		if s.Witness == nil || len(s.Witness.Lanes) < 2 || s.Witness.Summary.In(tell.English) == "" {
			t.Errorf("%s: the picture is %+v", s.ID, s.Witness)
		}
		if s.Requests != 80 {
			t.Errorf("%s: %d requests, want 80", s.ID, s.Requests)
		}
	}
	return sales
}

// A lock that excludes nobody oversells, one whose lease ends during the work oversells when a buyer
// is late, and one that renews sells right.
func TestSell(t *testing.T) {
	env, err := testbed.Open(context.Background(), testbed.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})

	t.Run("none", func(t *testing.T) {
		inTime := sold(t, env, "none", 0)[0]
		if inTime.Observed != finding.Breaks || inTime.Anomalies[finding.Oversold] == 0 || inTime.Anomalies[finding.WrongReleases] > 0 {
			t.Errorf("it %s: %v", inTime.Observed, inTime.Anomalies)
		}
		err := lockjudge.Verdict(nil, []finding.Result{inTime})
		if !errors.Is(err, lockjudge.ErrBroken) || !strings.Contains(err.Error(), inTime.Title) {
			t.Errorf("the verdict is %v", err)
		}
	})
	t.Run("naive", func(t *testing.T) {
		late := sold(t, env, "naive", 0)[1]
		if late.Observed != finding.Breaks || late.Anomalies[finding.Overlaps] == 0 {
			t.Errorf("it %s: %v", late.Observed, late.Anomalies)
		}
		if w := late.Witness; w == nil || w.Kind == "" {
			t.Errorf("the picture does not prove an anomaly: %+v", w)
		}
	})
	t.Run("reentrant", func(t *testing.T) {
		for _, s := range sold(t, env, "reentrant", 3*time.Second) {
			if s.Observed != finding.Holds || s.Orders != 30 {
				t.Errorf("%s: %d orders, it %s: %v", s.ID, s.Orders, s.Observed, s.Anomalies)
			}
		}
	})
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
			Kind: finding.Oversold, Summary: tell.Plain("23 orders for 20 vouchers."), Actors: []string{"buyer 1"},
			Lanes: []finding.Lane{{Name: "buyer 1", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, To: 9}}}},
		},
	}
	d := lockjudge.NewDocument("mylock", "a server", 3*time.Second, results, []finding.Result{sale})
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Broken     int
		Behaviours []struct{ Name, Grade, Seen, Untried string }
		Sales      []struct {
			Orders    int
			Anomalies map[string]int
			Witness   struct{ Summary string }
		}
	}
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if read.Broken != 1 || len(read.Behaviours) != 4 || read.Behaviours[0].Grade != "mutual exclusion" || read.Behaviours[2].Untried != "no server" {
		t.Errorf("the behaviours are %s", data)
	}
	if len(read.Sales) != 1 || read.Sales[0].Orders != 23 || read.Sales[0].Anomalies["oversold"] != 3 || read.Sales[0].Witness.Summary == "" {
		t.Errorf("the sales are %s", data)
	}
	var page bytes.Buffer
	if err := d.Page(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"mylock: 2 of 3 behaviours break", "it was &lt;deleted&gt;", "release seat: released", "lease-runs-out", "told-when-deleted: no server",
		"one is late", "23 orders for 20 vouchers.", "<svg",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
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
