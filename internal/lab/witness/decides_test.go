package witness_test

import (
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
	"seckill/internal/voucher"
)

// What decides is drawn: the renewals that keep a key, and a release that lasts between its two commands.
func TestRenewalsAndALastingReleaseAreDrawn(t *testing.T) {
	w, ok := witness.Picture(judgetest.Script(t, `
		1   17 acquired asked=0 mech=uuid left=300
		1.5 store 17 ttl=300
		101 store 17 ttl=300
		110 store 17 ttl=290
		201 store 17 ttl=300
		210 18@2 acquiring
		300 17 releasing left=200 stored=17 mech=uuid
		400 17 released asked=301 mech=uuid
		400 store free
		401 18@2 acquired asked=210
		420 18@2 releasing stored=18
		421 18@2 released asked=420`), "")
	if !ok {
		t.Fatal("nothing is shown")
	}
	show(t, w, "Buyer 17 gets the lock at 1.0 ms; buyer 18 asks for it and waits; buyer 17 gives it back at 300 ms, and buyer 18 is granted it at 401 ms.",
		"buyer 17 (api-1): holds(1-300 buyer 17 (api-1)) waits(300-400 between GET and DEL) release@300(releases)",
		"buyer 18 (api-2): waits(210-401 buyer 18 (api-2)) holds(401-420 buyer 18 (api-2)) release@420(releases)",
		"lock store: stored(2-400 buyer 17) renews@101(renewed) renews@201() deleted@400(deleted)")
}

// Without a lock the picture shows who came first beside who was refused, and what changed between them.
func TestWinnerStandsBesideLoser(t *testing.T) {
	const buyers = `
		1  17 acquired asked=0.5 mech=none
		2  18@2 acquired asked=1.5 mech=none
		3  17 read stock=4 version=6 tx=1
		4  18@2 read stock=4 version=6 tx=1`
	const leave = `
		20 17 releasing mech=none
		21 17 released asked=20 mech=none
		22 18@2 releasing mech=none
		23 18@2 released asked=22 mech=none`
	for _, tt := range []struct{ history, summary, database string }{
		{
			"\n6 18@2 write mode=version version=6 tx=1\n7 18@2 committed asked=6 tx=1\n8 17 write mode=version version=6 tx=1\n10 17 rolled_back asked=9 tx=1 err=conflict",
			"Buyer 18 and buyer 17 both read version 6. The write of buyer 18 makes it version 7 at 6.5 ms; that of buyer 17, WHERE version = 6, finds no row and is refused at 9.5 ms.",
			"database: write@6(version 6→7) refused@10(refused)",
		},
		{
			"\n6 18@2 write mode=conditional tx=1\n7 18@2 committed asked=6 tx=1\n8 17 write mode=conditional tx=1\n10 17 rolled_back asked=9 tx=1 err=sold",
			"Buyer 18 takes the last unit at 6.5 ms; the write of buyer 17, WHERE stock > 0, finds no row and is refused at 9.5 ms.",
			"database: write@6(stock −1) refused@10(refused)",
		},
	} {
		ev := judgetest.Script(t, buyers+tt.history+leave)
		for i := range ev.Events {
			if ev.Events[i].Error == "sold" {
				ev.Events[i].Error = voucher.ErrSoldOut.Error()
			}
		}
		w, ok := witness.Picture(ev, "")
		if !ok || w.Summary.String() != tt.summary {
			t.Errorf("%s\nwant %s", w.Summary, tt.summary)
		}
		if lines := drawn(w); lines[len(lines)-1] != tt.database {
			t.Errorf("%q, want %q", lines, tt.database)
		}
	}
}

// The locks of those who are not in the picture are one bar.
func TestOthersAreOneBar(t *testing.T) {
	w := witness.Tell(judgetest.Script(t, `
		0  17 acquiring
		1  18 acquired asked=0
		1  store 18 ttl=99
		5  18 releasing
		6  18 released asked=5
		6  store free
		7  19 acquired asked=2
		7  store 19 ttl=99
		9  19 releasing
		10 19 released asked=9
		10 store free
		11 17 acquired asked=0
		11 store 17 ttl=99
		20 17 releasing
		21 17 released asked=20
		21 store free`), witness.Story{
		Kind: finding.Starved, Key: "k", Who: []string{"buyer 17"}, From: judgetest.Origin, To: judgetest.Origin + 20e6,
		Summary: i18n.Plain("17 waits"),
	})
	if got, want := drawn(w)[1], "lock store: stored(1-10 2 others) stored(11-21 buyer 17) deleted@21(deleted)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
