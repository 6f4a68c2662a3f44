package judge_test

import (
	"slices"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
)

// servers are what single servers held, over a history in which 17 had the lock on a
// majority, of which one node forgot it.
func servers(t *testing.T) judge.Evidence {
	t.Helper()
	ev := script(t, `
		0   17 asked
		1   17 acquired asked=0 left=9000
		50  18@2 asked
		51  18@2 acquired asked=50 left=9000
		90  17 releasing asked=89 left=8900 stored=18
		91  17 released asked=90 err=lost
		120 18@2 releasing asked=119 left=8900 stored=18
		121 18@2 released asked=120
		130 end`)
	for _, seen := range []struct{ server, at, what string }{
		{"node 1", "0", "free"}, {"node 1", "1", "17"}, {"node 1", "91", "free"},
		{"node 2", "0.1", "free"}, {"node 2", "1", "17"}, {"node 2", "30", "down"}, {"node 2", "40", "free"}, {"node 2", "51", "18"}, {"node 2", "121", "free"},
	} {
		s := sample(t, nanos(t, seen.at), seen.what, nil)
		s.Server = seen.server
		ev.Samples = append(ev.Samples, s)
	}
	return ev
}

func TestSingleServersHaveLanes(t *testing.T) {
	j := judge.Judge(servers(t))
	if n := j.Anomalies[finding.Overlaps]; n != 1 || len(j.Witnesses) != 1 {
		t.Fatalf("%d overlaps, %d witnesses, want 1 of each", n, len(j.Witnesses))
	}
	w := j.Witnesses[0]
	check(t, w)
	for name, want := range map[string][]finding.Mark{
		// Its release fails, since the others have it no more, and deletes what is left.
		"node 1": {{Kind: finding.Deletes, Label: "deleted", Who: "buyer 17 (api-1)"}},
		"node 2": {{Kind: finding.Notes, Label: "no answer"}, {Kind: finding.Deletes, Label: "deleted", Who: "buyer 18 (api-2)"}},
	} {
		i := slices.IndexFunc(w.Lanes, func(l finding.Lane) bool { return l.Name == name && l.Role == finding.LockStore })
		if i < 0 {
			t.Errorf("%s has no lane", name)
			continue
		}
		got := slices.Clone(w.Lanes[i].Marks)
		for m := range got {
			got[m].At = 0
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// What one server holds at the end says nothing about the lock.
func TestSingleServerIsNotTheStore(t *testing.T) {
	ev := script(t, `
		0   17 asked
		1   17 acquired asked=0
		50  17 abandoned
		900 end`)
	s := sample(t, nanos(t, "1"), "17", nil)
	s.Server = "node 1"
	ev.Samples = []judge.Sample{s}
	if n, looked := judge.Judge(ev).Anomalies[finding.StuckKeys]; looked {
		t.Errorf("%d stuck keys, where nobody looked at the store as a whole", n)
	}
}

func TestTellMarksMoments(t *testing.T) {
	ev := servers(t)
	w := judge.Tell(ev, judge.Story{
		Kind: finding.Herds, Key: "k", Who: []string{"buyer 17", "buyer 18"}, From: nanos(t, "0"), To: nanos(t, "120"),
		Summary: func(func(int64) string) string { return "they wake" },
		Moments: []judge.Moment{
			{Who: "buyer 18", At: nanos(t, "60"), Kind: finding.Wakes, Label: "in vain", Wrong: true},
			{Who: "buyer 19", At: nanos(t, "60"), Kind: finding.Wakes},
			{Who: "buyer 17", At: nanos(t, "9000"), Kind: finding.Wakes},
		},
	})
	check(t, w)
	var found []finding.Mark
	for _, lane := range w.Lanes {
		for _, m := range lane.Marks {
			if m.Kind == finding.Wakes {
				found = append(found, m)
			}
		}
	}
	if len(found) != 1 || found[0].Who != "buyer 18 (api-2)" || !found[0].Wrong {
		t.Errorf("the moments of those in the picture: %+v, want that of buyer 18", found)
	}
}
