package witness_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
)

// sampled adds what single servers were seen to have. A line is "SERVER: AT OWNER [TTL]".
func sampled(t *testing.T, ev judge.Evidence, seen string) judge.Evidence {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(seen)) {
		server, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		words := append(strings.Fields(rest), "")
		s := judgetest.Sample(t, judgetest.Nanos(t, words[0]), words[1], map[string]string{"ttl": words[2]})
		s.Server = server
		ev.Samples = append(ev.Samples, s)
	}
	return ev
}

// bothHold is a history in which 18 is granted the lock that 17 has not released yet.
func bothHold(t *testing.T) judge.Evidence {
	t.Helper()
	return judgetest.Script(t, `
		0   17 acquiring
		1   17 acquired asked=0 left=9000
		50  18@2 acquiring
		51  18@2 acquired asked=50 left=9000
		90  17 releasing asked=89 left=8900 stored=18
		91  17 released asked=90 err=lost
		120 18@2 releasing asked=119 left=8900 stored=18
		121 18@2 released asked=120
		130 end`)
}

// forgotten are samples of single servers: 17 has the lock on a majority, and one of these nodes forgets it.
func forgotten(t *testing.T) judge.Evidence {
	t.Helper()
	return sampled(t, bothHold(t), `
		node 1: 0 free
		node 1: 1 17
		node 1: 91 free
		node 2: 0.1 free
		node 2: 1 17
		node 2: 30 down
		node 2: 40 free
		node 2: 51 18
		node 2: 121 free`)
}

func TestSingleServersHaveLanes(t *testing.T) {
	j := judge.Judge(forgotten(t))
	if n := j.Anomalies[finding.Overlaps]; n != 1 || len(witness.Proofs(j)) != 1 {
		t.Fatalf("%d overlaps, %d witnesses, want 1 of each", n, len(witness.Proofs(j)))
	}
	w := witness.Proofs(j)[0]
	judgetest.CheckWitness(t, w)
	for name, want := range map[string][]finding.Mark{
		// Its release fails, since the others no longer have the lock, and deletes the rest.
		"node 1": {{Kind: finding.Deletes, Label: i18n.F("deleted"), Who: "buyer 17 (api-1)"}},
		"node 2": {{Kind: finding.Notes, Label: i18n.F("no answer")}, {Kind: finding.Deletes, Label: i18n.F("deleted"), Who: "buyer 18 (api-2)"}},
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
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// A holder keeps the key it took when another holder takes a key of another name.
func TestKeysApartAreKept(t *testing.T) {
	ev := sampled(t, bothHold(t), `
		key 1: 0 free
		key 1: 1 17
		key 1: 91 free
		key 2: 0 free
		key 2: 51 18
		key 2: 121 free`)
	for _, apart := range []bool{true, false} {
		ev.Apart = apart
		w := witness.Proofs(judge.Judge(ev))[0]
		believes := slices.ContainsFunc(w.Lanes, func(l finding.Lane) bool {
			return slices.ContainsFunc(l.Spans, func(s finding.Span) bool { return s.Kind == finding.Believes })
		})
		if believes == apart {
			t.Errorf("locks apart %t: a holder that only believes %t", apart, believes)
		}
	}
}

// A lease that is over on every server is over, though nobody else was granted the lock.
func TestLeaseOverOnEveryServer(t *testing.T) {
	ev := sampled(t, judgetest.Script(t, `
		0   17 acquiring
		1   17 acquired asked=0 left=99
		190 17 releasing asked=189 left=-90 stored=free
		191 17 released asked=190 err=expired
		200 18@2 acquiring
		201 18@2 acquired asked=200 left=9000
		230 end`), `
		node 1: 0 free
		node 1: 1 17 100
		node 1: 101 free
		node 2: 0 free
		node 2: 3 17 100
		node 2: 103 free`)
	w, ok := witness.Picture(ev, "buyer 17")
	if !ok {
		t.Fatal("no picture")
	}
	i := slices.IndexFunc(w.Lanes[0].Spans, func(s finding.Span) bool { return s.Kind == finding.Believes })
	if i < 0 || w.Lanes[0].Spans[i].From != 103 {
		t.Errorf("the lane is %+v", w.Lanes[0].Spans)
	}
}

// One server's state at the end does not tell who holds the lock.
func TestSingleServerIsNotTheStore(t *testing.T) {
	ev := sampled(t, judgetest.Script(t, `
		0   17 acquiring
		1   17 acquired asked=0
		50  17 abandoned
		900 end`), "node 1: 1 17")
	if n, looked := judge.Judge(ev).Anomalies[finding.StuckKeys]; looked {
		t.Errorf("%d stuck keys, where nobody looked at the store as a whole", n)
	}
}

func TestTellMarksMoments(t *testing.T) {
	ev := forgotten(t)
	w := witness.Tell(ev, witness.Story{
		Kind: finding.Herds, Key: "k", Who: []string{"buyer 17", "buyer 18"}, From: judgetest.Nanos(t, "0"), To: judgetest.Nanos(t, "120"),
		Summary: i18n.Plain("they wake"),
		Moments: []witness.Moment{
			{Who: "buyer 18", At: judgetest.Nanos(t, "60"), Kind: finding.Wakes, Label: i18n.Plain("in vain"), Wrong: true},
			{Who: "buyer 19", At: judgetest.Nanos(t, "60"), Kind: finding.Wakes},
			{Who: "buyer 17", At: judgetest.Nanos(t, "9000"), Kind: finding.Wakes},
		},
	})
	judgetest.CheckWitness(t, w)
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
