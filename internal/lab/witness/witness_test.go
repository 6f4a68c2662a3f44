package witness_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// The process of 17 is paused beyond its lease. It resumes and overwrites what 18 sold.
const paused = `
	0   17 acquiring
	1   17 acquired asked=0 left=100 token=33
	1.5 store 17 ttl=99
	2   17 read stock=4 tx=1
	10  api-1 paused to=410
	20  18@2 acquiring
	101 store free
	102 18@2 acquired asked=20 left=100 token=34
	102.5 store 18 ttl=99
	103 18@2 read stock=4 tx=1
	105 18@2 write stock=3 tx=1
	107 18@2 committed asked=106 tx=1
	108 18@2 releasing asked=107.5 left=94 stored=18
	109 18@2 released asked=108
	109.5 store free
	411 17 write stock=3 tx=1
	413 17 committed asked=412 tx=1
	414 17 releasing asked=413.5 left=-313 stored=free
	415 17 released asked=414 err=expired`

// The same, but the late write is refused.
const fenced = `
	0   17 acquiring
	1   17 acquired asked=0 left=100 token=33
	1.5 store 17 ttl=99
	10  api-1 paused to=410
	20  18@2 acquiring
	101 store free
	102 18@2 acquired asked=20 left=100 token=34
	102.5 store 18 ttl=99
	105 18@2 write mode=fenced token=34 tx=1
	107 18@2 committed asked=106 tx=1
	108 18@2 releasing asked=107.5 left=94 stored=18
	109 18@2 released asked=108
	109.5 store free
	411 17 write mode=fenced token=33 tx=1
	413 17 rolled_back asked=412 tx=1 err=stale
	414 17 releasing asked=413.5 left=-313 stored=free
	415 17 released asked=414 err=expired`

// drawn is a witness as lines of text. An exclamation mark stands for wrong, a question mark for
// the cause.
func drawn(w finding.Witness) []string {
	bang, cause := map[bool]string{true: "!"}, map[bool]string{true: "?"}
	var lines []string
	for _, l := range w.Lanes {
		var words []string
		for _, s := range l.Spans {
			words = append(words, fmt.Sprintf("%s%s(%.0f-%.0f %s)", bang[s.Wrong], s.Kind, s.From, s.To, cmp.Or(s.Label.String(), s.Who)))
		}
		for _, m := range l.Marks {
			words = append(words, fmt.Sprintf("%s%s%s@%.0f(%s)", bang[m.Wrong], cause[m.Cause], m.Kind, m.At, m.Label))
		}
		lines = append(lines, l.Name+": "+strings.Join(words, " "))
	}
	return lines
}

func show(t *testing.T, w finding.Witness, summary string, want ...string) {
	t.Helper()
	judgetest.CheckWitness(t, w)
	if w.Summary.String() != summary {
		t.Errorf("summary:\n%s\nwant:\n%s", w.Summary, summary)
	}
	if got := drawn(w); !slices.Equal(got, want) {
		t.Errorf("drawn:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// proof is the witness of a kind.
func proof(t *testing.T, ev judge.Evidence, kind finding.Kind) finding.Witness {
	t.Helper()
	for _, w := range witness.Proofs(judge.Judge(ev)) {
		if w.Kind == kind {
			return w
		}
	}
	t.Fatalf("no witness of %s", kind)
	return finding.Witness{}
}

func TestWrongReleaseIsDrawn(t *testing.T) {
	show(t, proof(t, judgetest.Script(t, judgetest.NaiveChain), finding.WrongReleases),
		"Buyer 17 gets the lock at 1.0 ms, with a lease until 101 ms; at 102 ms buyer 18 is granted it; at 120 ms buyer 17 releases, which deletes the lock of buyer 18 and lets buyer 19 in at 122 ms; at 140 ms buyer 18 releases, which deletes the lock of buyer 19 and lets buyer 20 in at 142 ms.",
		"buyer 17 (api-1): holds(1-101 buyer 17 (api-1)) believes(101-119 buyer 17 (api-1)) !release@120(deletes the lock of buyer 18)",
		"buyer 18 (api-2): waits(50-102 buyer 18 (api-2)) holds(102-122 buyer 18 (api-2)) believes(122-139 buyer 18 (api-2)) !release@140(deletes the lock of buyer 19)",
		"buyer 19 (api-1): waits(60-122 buyer 19 (api-1)) holds(122-142 buyer 19 (api-1)) believes(142-159 buyer 19 (api-1)) release@160(releases)",
		"buyer 20 (api-2): waits(70-142 buyer 20 (api-2)) holds(142-179 buyer 20 (api-2)) release@180(releases)",
		"lock store: stored(2-101 buyer 17) stored(102-122 buyer 18) stored(122-142 buyer 19) stored(142-182 buyer 20) ?expired@101(lease over) !deleted@122(the release of buyer 17 deletes the lock of buyer 18) !deleted@142(the release of buyer 18 deletes the lock of buyer 19) deleted@182(deleted)")
}

func TestStaleWriteIsDrawn(t *testing.T) {
	show(t, proof(t, judgetest.Script(t, paused), finding.StaleWrites),
		"Buyer 17 gets the lock at 1.0 ms, with a lease until 101 ms, and its process stands still for 400 ms; at 102 ms buyer 18 is granted it; at 413 ms buyer 17 nevertheless commits a stock of 3 over the 3 that was committed meanwhile.",
		"buyer 17 (api-1): holds(1-101 buyer 17 (api-1)) paused(10-410 buyer 17 (api-1)) believes(101-414 buyer 17 (api-1)) read@2(reads 4) wakes@410(wakes) !write@411(writes 3) release@414(releases)",
		"buyer 18 (api-2): waits(20-102 buyer 18 (api-2)) holds(102-108 buyer 18 (api-2)) read@103(reads 4) write@105(writes 3) release@108(releases)",
		"lock store: stored(2-101 buyer 17) stored(102-110 buyer 18) ?expired@101(lease over) deleted@110(deleted)",
		"database: write@107(stock 4→3) !write@413(stock 3→3)",
		"faults: paused(10-410 api-1 stands still)")
}

// An actor that dies before its acquisition is answered is in the picture of the key that it
// left.
func TestStuckKeyOfTheUnheardIsDrawn(t *testing.T) {
	show(t, proof(t, judgetest.Script(t, `
		1   17 acquiring owner=17
		2   store 17
		5   api-1 killed
		900 18@2 refused asked=20 err=taken
		1000 end`), finding.StuckKeys),
		"Buyer 17 asks for the lock at 0 ms, and the store has its key at 1.0 ms; at 4.0 ms api-1 is killed, before it was told that the lock is its own; 998 ms later the store still has the key, which has no expiry; buyer 18 is refused.",
		"buyer 17 (api-1): waits(0-4 buyer 17 (api-1)) killed@4(killed)",
		"buyer 18 (api-2): waits(19-899 buyer 18 (api-2)) refused@899(refused)",
		"lock store: !stored(1-944 buyer 17)",
		"faults: down(4-944 api-1 is dead) killed@4(api-1 killed)")
}

// A paused process is not told: its holder believes until it resumes.
func TestHolderThatIsToldWhenItWakes(t *testing.T) {
	w := proof(t, judgetest.Script(t, strings.Replace(paused, "411 17 write", "410.5 17 lost err=expired\n\t411 17 write", 1)), finding.Overlaps)
	believes, stands := spanOf(t, w.Lanes[0], finding.Believes), spanOf(t, w.Lanes[0], finding.Paused)
	if believes.To != stands.To {
		t.Errorf("believes until %v, and stands still until %v", believes.To, stands.To)
	}
}

func spanOf(t *testing.T, lane finding.Lane, kind finding.SpanKind) finding.Span {
	t.Helper()
	i := slices.IndexFunc(lane.Spans, func(s finding.Span) bool { return s.Kind == kind })
	if i < 0 {
		t.Fatalf("%s: nothing that %s: %+v", lane.Name, kind, lane.Spans)
	}
	return lane.Spans[i]
}

// Without a lock nobody gets, holds or releases one.
func TestNoLockIsDrawnAsNone(t *testing.T) {
	show(t, proof(t, judgetest.Script(t, `
		1  17 acquired asked=0.5 mech=none
		2  17 read stock=4 tx=1
		3  18@2 acquired asked=2.5 mech=none
		9  17 releasing mech=none
		9  17 released asked=9 mech=none
		11 18@2 releasing mech=none
		11 18@2 released asked=11 mech=none`), finding.Overlaps),
		"Buyer 17 comes in at 0.5 ms; at 2.5 ms buyer 18 comes in, too: for 6.0 ms both are inside.",
		"buyer 17 (api-1): holds(0-8 is inside) read@2(reads 4) note@8(leaves)",
		"buyer 18 (api-2): !holds(2-10 is inside) note@10(leaves)")
}

// A caller without an answer was not refused.
func TestGivingUpIsNoRefusal(t *testing.T) {
	ev := judgetest.Script(t, `
		1  17 acquired asked=0
		9  18 refused asked=8 err=lock
		20 17 releasing stored=17`)
	for text, want := range map[string]string{
		fmt.Sprintf("acquire: %v", context.DeadlineExceeded):                  "gives up",
		fmt.Sprintf("%v: no route", lock.ErrUnavailable):                      "gives up",
		lock.ErrNotAcquired.Error() + ": \"k\"":                               "is refused",
		fmt.Sprintf("%v (%v)", lock.ErrNotAcquired, context.DeadlineExceeded): "is refused",
	} {
		ev.Events[1].Error = text
		w, ok := witness.Picture(ev, "")
		if !ok {
			t.Fatal("nothing is shown")
		}
		if !strings.HasSuffix(w.Summary.String(), "buyer 18 "+want+" at 9.0 ms, before the release.") {
			t.Errorf("%s: %s", text, w.Summary)
		}
		if lane := drawn(w)[1]; !strings.HasSuffix(lane, "("+strings.TrimPrefix(want, "is ")+")") {
			t.Errorf("%s: %s", text, lane)
		}
	}
}

// A description is replaced by the name of the holder that had just got the lock, a single
// word is not.
func TestStoredValueNamesItsHolder(t *testing.T) {
	for value, want := range map[string]string{"connection 7": "buyer 17", "4711": "4711", "readers": "readers"} {
		ev := judgetest.Script(t, `
			1  17 acquired asked=0
			2  store #v
			9  17 releasing`)
		ev.Samples[0].Stored.Owner = value
		w, ok := witness.Picture(ev, "")
		if !ok {
			t.Fatal("nothing is shown")
		}
		fail.Unequal(t, w.Lanes[1].Spans[0].Label.String(), want, "%s is told as", value)
	}
}

func TestDuplicatesAreDrawn(t *testing.T) {
	ev := judgetest.Script(t, `
		1 17 checked tx=1 attempt=1
		2 17 checked tx=2 attempt=2
		3 17 insert order=71 tx=1 attempt=1
		4 17 insert order=72 tx=2 attempt=2
		5 17 committed asked=4 tx=1 attempt=1
		6 17 committed asked=5 tx=2 attempt=2`)
	ev.Audit = &order.Audit{InitialStock: 9, Stock: 7, Orders: 2, DistinctUsers: 1}
	show(t, proof(t, ev, finding.DuplicateOrders),
		"User 17 has two orders: both requests look for an earlier order, at 0 ms and at 1.0 ms, and find none; the first is committed at 4.0 ms, the second at 5.0 ms.",
		"buyer 17 (api-1): transaction(0-4 buyer 17 (api-1)) note@0(finds no order) note@2(orders)",
		"buyer 17 (api-1), again: transaction(1-5 buyer 17 (api-1), again) note@1(finds no order) !note@3(orders)",
		"database: note@4(order) !note@5(order)")
}

// What was committed before the late buyer read is no write that it overwrites.
func TestStaleWriteOverNothing(t *testing.T) {
	ev := judgetest.Script(t, `
		0   16 read stock=5 tx=1
		0.1 16 write stock=4 tx=1
		0.4 16 committed asked=0.2 tx=1
		0.5 17 acquiring
		1   17 acquired asked=0.5 left=100 token=33
		2   17 read stock=4 tx=1
		102 18@2 acquired asked=20 left=100 token=34
		411 17 write stock=3 tx=1
		413 17 committed asked=412 tx=1
		414 18@2 releasing asked=413.5 left=-313 stored=free`)
	w := proof(t, ev, finding.StaleWrites)
	if !strings.HasSuffix(w.Summary.String(), "at 413 ms buyer 17 nevertheless commits a stock of 3.") {
		t.Error(w.Summary)
	}
}

func TestOversoldIsDrawn(t *testing.T) {
	ev := judgetest.Script(t, paused)
	ev.Audit = &order.Audit{InitialStock: 1, Orders: 2, DistinctUsers: 2}
	w := proof(t, ev, finding.Oversold)
	judgetest.CheckWitness(t, w)
	if !strings.HasSuffix(w.Summary.String(), "both sell the same unit. Of 1 units 2 were sold.") {
		t.Error(w.Summary)
	}
}

func TestLostOrderIsDrawn(t *testing.T) {
	ev := judgetest.Script(t, `
		3 17 insert order=71 tx=1
		5 17 committed asked=4 tx=1`)
	ev.Acks, ev.Rows = []judge.Ack{{Order: 71, User: 17}}, []order.Order{}
	show(t, proof(t, ev, finding.LostOrders),
		"Buyer 17 is told that its order 71 is placed; at the end the database does not have it.",
		"buyer 17 (api-1): transaction(0-2 buyer 17 (api-1)) !note@0(orders)",
		"database: !note@2(order)")
}

// Faults of servers are in the picture if they are within its period.
func TestFaultsAreDrawn(t *testing.T) {
	ev := judgetest.Script(t, paused+`
		20  slow-network fault to=60
		90  restarted fault to=90.2
		300 primary-down fault
		950 unplugged fault`)
	w := proof(t, ev, finding.StaleWrites)
	want := "faults: paused(10-410 api-1 stands still) down(20-60 slow-network) down(300-436 primary-down) ?note@90(restarted)"
	if got := drawn(w); got[len(got)-1] != want {
		t.Errorf("drawn:\n%s\nwant:\n%s", got[len(got)-1], want)
	}
}

// A scenario draws an anomaly that only it can find.
func TestStoryIsDrawn(t *testing.T) {
	ev := judgetest.Script(t, `
		1  17 acquired asked=0
		9  17 refused asked=3 owner=17 err=taken
		20 17 releasing
		30 18 acquired asked=25`)
	w := witness.Tell(ev, witness.Story{
		Kind: finding.Deadlocks, Key: "k", Who: []string{"buyer 17"}, From: judgetest.Origin + 1e6, To: judgetest.Origin + 20e6,
		Summary: i18n.Key("refused at %s", witness.At(judgetest.Origin+9e6)),
		Wrong:   []witness.Wrong{{Who: "buyer 17", Span: finding.Waits, Mark: finding.Refuses}},
	})
	show(t, w, "Refused at 9.0 ms",
		"buyer 17 (api-1): waits(0-1 buyer 17 (api-1)) holds(1-20 buyer 17 (api-1)) !waits(3-9 buyer 17 (api-1)) !refused@9(refused) release@20(releases)")
}

func TestPictureOfPrevention(t *testing.T) {
	for _, tt := range []struct {
		name, history string
		who           string
		summary       string
	}{
		{name: "a late write is refused", history: fenced, summary: "Buyer 17 gets the lock at 1.0 ms, with a lease until 101 ms, and its process stands still for 400 ms; at 102 ms buyer 18 is granted it; the late write of buyer 17 is refused at 413 ms."},
		{name: "a write without a lock is refused, which is not late", summary: "Buyer 17 comes in at 0.5 ms; at 2.5 ms buyer 18 comes in; the write of buyer 17 is refused at 5.5 ms.", history: `
			1  17 acquired asked=0.5 mech=none
			2  17 write mode=version tx=1
			3  18@2 acquired asked=2.5 mech=none
			6  17 rolled_back asked=5 tx=1 err=conflict
			9  17 releasing mech=none
			9  17 released asked=9 mech=none
			11 18@2 releasing mech=none
			11 18@2 released asked=11 mech=none`},
		{name: "a holder is told", summary: "Buyer 17 gets the lock at 1.0 ms; at 90 ms it is told that it holds it no longer; buyer 18 is granted it at 101 ms.", history: `
			1   17 acquired asked=0 left=100
			90  17 lost err=expired
			101 18@2 acquired asked=5
			150 18@2 releasing stored=18`},
		{name: "a dead holder's lock goes to the next one", summary: "Buyer 17 gets the lock at 1.0 ms and is killed at 5.0 ms; 96 ms later, at 101 ms, buyer 18 is granted it.", history: `
			1   17 acquired asked=0 left=100
			2   store 17 ttl=99
			5   api-1 killed
			101 store free
			101 18@2 acquired asked=5
			150 18@2 releasing stored=18`},
		{name: "a late release leaves the next one's lock", summary: "Buyer 17 gets the lock at 1.0 ms; at 101 ms buyer 18 is granted it; at 140 ms buyer 17 releases, finds that the lock is not its own, and leaves it; buyer 18 has it until 180 ms.", history: `
			1   17 acquired asked=0 left=100
			101 18@2 acquired asked=5
			140 17 releasing left=-40 stored=x:18
			141 17 released asked=140 err=lost
			180 18@2 releasing left=20 stored=x:18
			181 18@2 released asked=180`},
		{name: "one waits for another", summary: "Buyer 17 gets the lock at 1.0 ms; buyer 19 asks for it and waits; buyer 17 gives it back at 20 ms, and buyer 19 is granted it at 22 ms.", history: `
			1  17 acquired asked=0
			5  18 acquired asked=0 key=other
			20 17 releasing stored=17
			21 17 released asked=20
			22 19 acquired asked=3
			30 19 releasing stored=19`},
		{name: "one was waiting before", summary: "Buyer 17 gets the lock at 3.0 ms; buyer 19 waits for it already; buyer 17 gives it back at 20 ms, and buyer 19 is granted it at 22 ms.", history: `
			0  17 acquiring
			1  19@2 acquiring
			3  17 acquired asked=0
			20 17 releasing
			21 17 released asked=20
			22 19@2 acquired asked=1`},
		{name: "one is refused", summary: "Buyer 17 gets the lock at 1.0 ms; buyer 18 is refused at 9.0 ms, before the release.", history: `
			1  17 acquired asked=0
			9  18 refused asked=8 err=taken
			20 17 releasing stored=17`},
		{name: "two write, and one is refused", summary: "Buyer 17 commits at 3.0 ms, buyer 18 is refused at 5.0 ms.", history: `
			1  17 read stock=1 version=4 tx=1
			2  18 read stock=1 version=4 tx=2
			3  17 write mode=version version=4 tx=1
			4  17 committed asked=3 tx=1
			5  18 write mode=version version=4 tx=2
			6  18 rolled_back asked=5 tx=2 err=conflict`},
		{name: "one alone", summary: "Buyer 17 gets the lock at 1.0 ms and has it until 9.0 ms.", history: `
			1  17 acquired asked=0
			9  17 releasing`},
		{name: "of one of them", who: "buyer 17", summary: "Buyer 17 gets the lock at 1.0 ms and has it until 11 ms.", history: `
			1  17 acquired asked=0
			9  18 refused asked=8 err=taken
			11 17 releasing`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, ok := witness.Picture(judgetest.Script(t, tt.history), tt.who)
			if !ok {
				t.Fatal("nothing is shown")
			}
			judgetest.CheckWitness(t, w)
			if w.Summary.String() != tt.summary {
				t.Errorf("summary:\n%s\nwant:\n%s", w.Summary, tt.summary)
			}
		})
	}
	if _, ok := witness.Picture(judge.Evidence{}, ""); ok {
		t.Error("a picture of nothing")
	}
}
