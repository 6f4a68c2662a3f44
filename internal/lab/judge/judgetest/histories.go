package judgetest

import (
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/order"
)

// History is a history with the anomalies that are in it.
type History struct {
	Name   string
	Events string                // for [Script]
	Change func(*judge.Evidence) // nil: the evidence is what the script says
	Want   map[finding.Kind]int  // a kind that is missing is expected 0 times
}

// Evidence is the history as evidence.
func (h History) Evidence(t *testing.T) judge.Evidence {
	t.Helper()
	ev := Script(t, h.Events)
	if h.Change != nil {
		h.Change(&ev)
	}
	return ev
}

var histories = []History{
	{Name: "nothing"},
	{Name: "one after the other", Events: `
		1  17 acquired asked=0
		10 17 releasing asked=9.5 stored=17
		11 17 released asked=10
		11 18 acquired asked=5
		20 18 releasing stored=18
		21 18 released asked=20`},
	{Name: "the next one is in before the reply to the release", Events: `
		1  17 acquired asked=0 left=100
		10 17 releasing asked=9.5 left=91 stored=17
		11 18 acquired asked=5 left=100
		14 17 released asked=10
		20 18 releasing left=91 stored=18
		21 18 released asked=20`},
	{Name: "two holders", Events: `
		1   17 acquired asked=0 left=100
		102 18 acquired asked=5 left=100
		150 17 releasing left=-49 stored=18
		151 17 released asked=150 err=lost
		160 18 releasing left=40 stored=18
		161 18 released asked=160`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "granted while the late one looks at the store", Events: `
		1   17 acquired asked=0 left=100
		102 18 acquired asked=5 left=100
		103 17 releasing asked=101.5 left=-1 stored=18
		104 17 released asked=103 err=lost`},
	{Name: "everybody is granted it", Events: `
		1 17 acquired
		2 18 acquired
		3 19 acquired
		9 17 releasing
		9 18 releasing
		9 19 releasing`, Want: map[finding.Kind]int{finding.Overlaps: 2}},
	{Name: "another key", Events: `
		1 17 acquired
		2 18 acquired key=other
		9 17 releasing`},
	{Name: "told before the next one gets in", Events: `
		1   17 acquired asked=0 left=100
		100 17 lost err=expired
		101 18 acquired asked=5
		150 17 releasing left=-50 stored=18
		151 17 released asked=150 err=lost`},
	{Name: "told long after the next one got in", Events: `
		1   17 acquired asked=0 left=100
		101 18 acquired asked=5
		400 17 lost err=expired
		401 17 releasing left=-300 stored=18
		402 17 released asked=401 err=lost`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "told, and notes it a moment late", Events: `
		1   17 acquired asked=0 left=100
		101 18 acquired asked=5
		105 17 lost err=expired`},
	{Name: "walked away", Events: `
		1   17 acquired left=100
		5   17 abandoned
		101 18 acquired asked=5`},
	{Name: "killed", Events: `
		1   17 acquired left=100
		5   api-1 killed
		101 18@2 acquired asked=5`},
	{Name: "another process was killed", Events: `
		1   17 acquired left=100
		5   api-2 killed
		101 18@3 acquired asked=5
		110 17 releasing left=-9`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "re-entry is one hold", Events: `
		1  17 acquired
		2  17 acquired
		5  17 releasing stored=17
		6  17 released asked=5
		8  17 releasing stored=17
		9  17 released asked=8
		10 18 acquired asked=2`},
	{Name: "granted within the outer of two", Events: `
		1  17 acquired
		2  17 acquired
		5  17 releasing stored=17
		6  17 released asked=5
		7  18 acquired asked=2
		8  17 releasing stored=17
		9  17 released asked=8`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "readers together", Change: func(ev *judge.Evidence) { ev.Shared = true }, Events: `
		1 17 acquired shared
		2 18 acquired shared
		8 17 releasing shared stored=18
		9 18 releasing shared stored=17`},
	{Name: "a writer beside a reader", Change: func(ev *judge.Evidence) { ev.Shared = true }, Events: `
		1 17 acquired shared
		2 18 acquired
		8 17 releasing shared stored=18
		9 18 releasing stored=18`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "the naive chain", Events: NaiveChain, Want: map[finding.Kind]int{
		// 18 beside 17, 19 beside 18, 20 beside 19
		finding.Overlaps: 3, finding.WrongReleases: 2,
	}},
	{Name: "robbed between compare and delete", Events: `
		1   17 acquired asked=0 left=100
		90  17 releasing asked=89 left=11 stored=x:17
		101 18 acquired asked=20 left=100
		103 17 released asked=90
		104 19 acquired asked=20 left=100
		150 18 releasing asked=149 left=50 stored=x:19
		151 18 released asked=150 err=lost
		152 19 releasing asked=151 left=50 stored=x:19
		153 19 released asked=152`, Want: map[finding.Kind]int{finding.Overlaps: 1, finding.WrongReleases: 1}},
	{Name: "equal numbers of two processes", Events: `
		1   17 acquired asked=0 left=100
		102 18@2 acquired asked=5 left=100
		150 17 releasing asked=149 left=-49 stored=#1
		151 17 released asked=150
		160 18@2 releasing asked=159 left=41 stored=free
		161 18@2 released asked=160 err=expired`, Want: map[finding.Kind]int{finding.Overlaps: 1, finding.WrongReleases: 1}},
	{Name: "a number that may be the holder's own", Events: `
		1   17 acquired asked=0 left=100
		102 18@2 acquired asked=5 left=100
		150 17 releasing asked=149 left=-49 stored=#1
		151 17 released asked=150 err=lost
		160 18@2 releasing asked=159 left=41 stored=#1
		161 18@2 released asked=160`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "a failover and no wrong release", Events: `
		1   17 acquired asked=0 left=1000
		20  server fault to=30
		102 18@2 acquired asked=5 left=1000
		130 18@2 releasing asked=129 left=970 stored=18
		131 18@2 released asked=130
		150 17 releasing asked=149 left=850 stored=free
		151 17 released asked=150 err=expired`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "the key vanishes under a killed holder's eyes", Events: `
		1   17 acquired asked=0
		102 18@2 acquired asked=50
		103 store 18 ttl=1000
		105 17 releasing asked=104 left=-1 stored=18
		106 17 released asked=105
		107 store free
		120 api-2 killed`, Want: map[finding.Kind]int{finding.Overlaps: 1, finding.WrongReleases: 1}},
	{Name: "the lease was over when the key went", Events: `
		1   17 acquired asked=0 left=1000
		102 18@2 acquired asked=50
		103 store 18 ttl=50
		105 17 releasing asked=104 left=900 stored=18
		165 17 released asked=105
		166 store free
		220 api-2 killed`, Want: map[finding.Kind]int{
		finding.Overlaps: 1, // 17's lock was not deleted by a release, whatever became of it
	}},
	{Name: "lost update", Events: `
		1 17 begun tx=1
		1 18@2 begun tx=1
		2 17 read stock=3 tx=1
		2 18@2 read stock=3 tx=1
		3 17 write stock=2 tx=1
		4 17 committed asked=3 tx=1
		5 18@2 write stock=2 tx=1
		6 18@2 committed asked=5 tx=1`, Want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{Name: "a lost update of an atomic one", Events: `
		2 17 read stock=3 tx=1
		3 18@2 write mode=conditional tx=1
		4 18@2 committed asked=3 tx=1
		5 17 write stock=2 tx=1
		6 17 committed asked=5 tx=1`, Want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{Name: "atomic writes lose nothing", Events: `
		2 17 read stock=3 version=1 tx=1
		3 18@2 write mode=conditional tx=1
		4 18@2 committed asked=3 tx=1
		5 17 write mode=version version=1 tx=1
		6 17 rolled_back asked=5 tx=1 err=conflict
		7 17 write mode=conditional tx=2
		8 17 committed asked=7 tx=2`},
	{Name: "undone writes lose nothing", Events: `
		2 17 read stock=3 tx=1
		3 18@2 write stock=2 tx=1
		4 18@2 rolled_back tx=1 err=deadlock
		5 17 write stock=2 tx=1
		6 17 committed asked=5 tx=1`},
	{Name: "one sale after the other", Events: `
		2 17 read stock=3 tx=1
		3 17 write stock=2 tx=1
		4 17 committed asked=3 tx=1
		5 18 read stock=2 tx=2
		6 18 write stock=1 tx=2
		7 18 committed asked=6 tx=2`},
	{Name: "read while the other commits, and seen", Events: `
		2 17 read stock=3 tx=1
		3 17 write stock=2 tx=1
		5 18 read stock=2 tx=2
		6 17 committed asked=4 tx=1
		6 18 write stock=1 tx=2
		7 18 committed asked=6 tx=2`},
	{Name: "read from a snapshot after the other's commit", Events: `
		1 18 begun tx=2
		2 17 read stock=3 tx=1
		3 17 write stock=2 tx=1
		4 17 committed asked=3 tx=1
		5 18 read stock=3 tx=2
		6 18 write stock=2 tx=2
		7 18 committed asked=6 tx=2`, Want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{Name: "read and written in two transactions under one lock", Events: `
		1 17 acquired
		2 17 begun tx=1
		3 17 read stock=3 tx=1
		4 17 committed asked=3 tx=1
		5 18 read stock=3 tx=2
		6 18 write stock=2 tx=2
		7 18 committed asked=6 tx=2
		8 17 begun tx=3
		9 17 write stock=2 tx=3
		10 17 committed asked=9 tx=3
		11 17 releasing`, Want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{Name: "a stale write", Events: `
		1   17 acquired asked=0 left=100
		2   17 read stock=3 tx=1
		101 18@2 acquired asked=5 left=100
		300 17 write stock=2 tx=1
		302 17 committed asked=301 tx=1
		303 17 releasing left=-200
		310 18@2 releasing left=1`, Want: map[finding.Kind]int{finding.StaleWrites: 1, finding.Overlaps: 1}},
	{Name: "the late write is refused", Events: `
		1   17 acquired asked=0 left=100
		2   17 read stock=3 tx=1
		101 18@2 acquired asked=5 left=100
		300 17 write mode=fenced token=1 tx=1
		302 17 rolled_back asked=301 tx=1 err=stale
		303 17 releasing left=-200
		310 18@2 releasing left=1`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "a late fenced write before the next holder's", Events: `
		1   17 acquired asked=0 left=100
		101 18@2 acquired asked=5 left=100
		300 17 write mode=fenced token=1 tx=1
		302 17 committed asked=301 tx=1
		303 17 releasing left=-200
		305 18@2 write mode=fenced token=2 tx=1
		306 18@2 committed asked=305 tx=1
		310 18@2 releasing left=1`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "a late fenced write that no fence held", Events: `
		1   17 acquired asked=0 left=100
		101 18@2 acquired asked=5 left=100
		105 18@2 write mode=fenced token=2 tx=1
		106 18@2 committed asked=105 tx=1
		110 18@2 releasing left=1
		300 17 write mode=fenced token=1 tx=1
		302 17 committed asked=301 tx=1
		303 17 releasing left=-200`, Want: map[finding.Kind]int{finding.Overlaps: 1, finding.StaleWrites: 1}},
	{Name: "a commit that may have been before the grant", Events: `
		1   17 acquired asked=0 left=100
		99  17 write mode=conditional tx=1
		101 18@2 acquired asked=5 left=100
		102 17 committed asked=100 tx=1
		103 17 releasing left=-2`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
	{Name: "committed after the release", Events: `
		1  17 acquired asked=0
		2  17 write stock=2 tx=1
		3  17 releasing
		4  17 released asked=3
		5  18 acquired asked=1
		10 17 committed asked=9 tx=1
		11 18 releasing`},
	{Name: "told, and writes all the same", Events: `
		1   17 acquired asked=0 left=100
		90  17 lost err=expired
		101 18@2 acquired asked=5
		120 17 write stock=2 tx=1
		122 17 committed asked=121 tx=1
		123 17 releasing left=-20
		124 18@2 releasing`, Want: map[finding.Kind]int{finding.StaleWrites: 1}},
	{Name: "stuck without an end", Events: `
		1   17 acquired asked=0
		2   store 17
		10  api-1 killed
		900 18@2 refused asked=20 err=taken
		1000 end`, Want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{Name: "still held", Events: `
		1   17 acquired asked=0
		2   store 17
		1000 end`},
	{Name: "a dead holder's lease goes", Events: `
		1   17 acquired asked=0
		2   store 17 ttl=500
		10  api-1 killed
		502 store free
		1000 end`},
	{Name: "a dead holder's lease still runs", Events: `
		1   17 acquired asked=0
		2   store 17 ttl=5000
		10  api-1 killed
		1000 end`},
	{Name: "a dead holder's lease runs longer than is good", Change: func(ev *judge.Evidence) { ev.Grace = 500 * time.Millisecond }, Events: `
		1   17 acquired asked=0
		2   store 17 ttl=5000
		10  api-1 killed
		1000 end`, Want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{Name: "released, and stays", Events: `
		1   17 acquired asked=0
		2   store 17
		10  17 releasing stored=17
		11  17 released asked=10 err=unavailable
		1000 end`, Want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{Name: "its release is under way", Events: `
		1   17 acquired asked=0
		2   store 17
		900 17 releasing stored=17
		1000 end`},
	{Name: "dies while it releases", Events: `
		1   17 acquired asked=0
		2   store 17
		900 17 releasing stored=17
		910 api-1 killed
		1000 end`, Want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{Name: "nobody was told of the grant", Events: `
		1   17 acquiring
		2   store #anybody
		10  17 refused asked=1 err=unavailable
		1000 end`, Want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{Name: "the grant may be on its way", Events: `
		1   17 acquiring
		2   store #anybody
		1000 end`},
	{Name: "the store does not answer at the end", Events: `
		1   17 acquired asked=0
		2   store 17
		10  api-1 killed
		500 store down
		1000 end`},
	{Name: "locked out", Events: `
		1   17 acquired asked=0
		2   store x:17 ttl=10000
		10  17 releasing stored=x:17
		11  17 released asked=10 err=expired
		50  18 refused asked=49 err=taken
		60  19 refused asked=59 err=taken stored=17
		10002 store free`, Want: map[finding.Kind]int{finding.LockedOut: 2}},
	{Name: "turned away by somebody who has it", Events: `
		1   17 acquired asked=0
		2   store 17
		10  18 refused asked=9 err=taken stored=17
		20  17 releasing stored=17
		21  17 released asked=20
		22  store free
		21.5 19 refused asked=19 err=taken stored=17`},
	{Name: "the observer comes late", Events: `
		1   17 acquired asked=0
		2   store 17
		10  17 releasing stored=17
		11  17 released asked=10
		12  19 acquired asked=5
		40  18 refused asked=39 err=taken
		50  19 releasing stored=19
		51  19 released asked=50
		60  store free`},
	{Name: "what the database holds", Change: func(ev *judge.Evidence) {
		ev.Audit = &order.Audit{InitialStock: 10, Stock: 3, Orders: 12, DistinctUsers: 11}
		ev.Acks = []judge.Ack{{Order: 1, User: 1}, {Order: 2, User: 2}}
		ev.Rows = []order.Order{{ID: 2, UserID: 2}, {ID: 1, UserID: 3}}
	}, Want: map[finding.Kind]int{finding.Oversold: 2, finding.DuplicateOrders: 1, finding.LostOrders: 1}},
}

// NaiveChain is a history in which 17 is late; its DEL takes 18's lock, 18's DEL that of 19, which was let in.
// NaiveChain is a late holder whose release deletes the next lock, and so on.
const NaiveChain = `
	0   17 acquiring
	1   17 acquired asked=0 left=100
	1.5 store 17 ttl=99
	50  18@2 acquiring
	60  19 acquiring
	70  20@2 acquiring
	101 store free
	102 18@2 acquired asked=50 left=100
	102.5 store 18 ttl=99
	120 17 releasing asked=119 left=-20 stored=18
	121 17 released asked=120
	121.5 store free
	122 19 acquired asked=60 left=100
	122.5 store 19 ttl=99
	140 18@2 releasing asked=139 left=62 stored=19
	141 18@2 released asked=140
	141.5 store free
	142 20@2 acquired asked=70 left=100
	142.5 store 20 ttl=99
	160 19 releasing asked=159 left=62 stored=20
	160.1 19 released asked=160 err=lost
	180 20@2 releasing asked=179 left=62 stored=20
	181 20@2 released asked=180
	181.5 store free`
