package judge_test

import (
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/order"
)

// The histories that the kinds of anomaly are told by. What is not in want is 0.
var histories = []struct {
	name    string
	history string
	change  func(*judge.Evidence)
	want    map[finding.Kind]int
}{
	{name: "nothing"},
	{name: "one after the other", history: `
		1  17 acquired asked=0
		10 17 releasing asked=9.5 stored=17
		11 17 released asked=10
		11 18 acquired asked=5
		20 18 releasing stored=18
		21 18 released asked=20`},
	{name: "the next one is in before the reply to the release", history: `
		1  17 acquired asked=0 left=100
		10 17 releasing asked=9.5 left=91 stored=17
		11 18 acquired asked=5 left=100
		14 17 released asked=10
		20 18 releasing left=91 stored=18
		21 18 released asked=20`},
	{name: "two holders", history: `
		1   17 acquired asked=0 left=100
		102 18 acquired asked=5 left=100
		150 17 releasing left=-49 stored=18
		151 17 released asked=150 err=lost
		160 18 releasing left=40 stored=18
		161 18 released asked=160`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "granted while the late one looks at the store", history: `
		1   17 acquired asked=0 left=100
		102 18 acquired asked=5 left=100
		103 17 releasing asked=101.5 left=-1 stored=18
		104 17 released asked=103 err=lost`},
	{name: "everybody is granted it", history: `
		1 17 acquired
		2 18 acquired
		3 19 acquired
		9 17 releasing
		9 18 releasing
		9 19 releasing`, want: map[finding.Kind]int{finding.Overlaps: 2}},
	{name: "another key", history: `
		1 17 acquired
		2 18 acquired key=other
		9 17 releasing`},
	{name: "told before the next one gets in", history: `
		1   17 acquired asked=0 left=100
		100 17 lost err=expired
		101 18 acquired asked=5
		150 17 releasing left=-50 stored=18
		151 17 released asked=150 err=lost`},
	{name: "told long after the next one got in", history: `
		1   17 acquired asked=0 left=100
		101 18 acquired asked=5
		400 17 lost err=expired
		401 17 releasing left=-300 stored=18
		402 17 released asked=401 err=lost`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "told, and notes it a moment late", history: `
		1   17 acquired asked=0 left=100
		101 18 acquired asked=5
		105 17 lost err=expired`},
	{name: "walked away", history: `
		1   17 acquired left=100
		5   17 abandoned
		101 18 acquired asked=5`},
	{name: "killed", history: `
		1   17 acquired left=100
		5   api-1 killed
		101 18@2 acquired asked=5`},
	{name: "another process was killed", history: `
		1   17 acquired left=100
		5   api-2 killed
		101 18@3 acquired asked=5
		110 17 releasing left=-9`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "re-entry is one hold", history: `
		1  17 acquired
		2  17 acquired
		5  17 releasing stored=17
		6  17 released asked=5
		8  17 releasing stored=17
		9  17 released asked=8
		10 18 acquired asked=2`},
	{name: "granted within the outer of two", history: `
		1  17 acquired
		2  17 acquired
		5  17 releasing stored=17
		6  17 released asked=5
		7  18 acquired asked=2
		8  17 releasing stored=17
		9  17 released asked=8`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "readers together", change: func(ev *judge.Evidence) { ev.Shared = true }, history: `
		1 17 acquired shared
		2 18 acquired shared
		8 17 releasing shared stored=18
		9 18 releasing shared stored=17`},
	{name: "a writer beside a reader", change: func(ev *judge.Evidence) { ev.Shared = true }, history: `
		1 17 acquired shared
		2 18 acquired
		8 17 releasing shared stored=18
		9 18 releasing stored=18`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "the naive chain", history: naiveChain, want: map[finding.Kind]int{
		// 18 beside 17, 19 beside 18, 20 beside 19
		finding.Overlaps: 3, finding.WrongReleases: 2,
	}},
	{name: "robbed between compare and delete", history: `
		1   17 acquired asked=0 left=100
		90  17 releasing asked=89 left=11 stored=x:17
		101 18 acquired asked=20 left=100
		103 17 released asked=90
		104 19 acquired asked=20 left=100
		150 18 releasing asked=149 left=50 stored=x:19
		151 18 released asked=150 err=lost
		152 19 releasing asked=151 left=50 stored=x:19
		153 19 released asked=152`, want: map[finding.Kind]int{finding.Overlaps: 1, finding.WrongReleases: 1}},
	{name: "equal numbers of two processes", history: `
		1   17 acquired asked=0 left=100
		102 18@2 acquired asked=5 left=100
		150 17 releasing asked=149 left=-49 stored=#1
		151 17 released asked=150
		160 18@2 releasing asked=159 left=41 stored=free
		161 18@2 released asked=160 err=expired`, want: map[finding.Kind]int{finding.Overlaps: 1, finding.WrongReleases: 1}},
	{name: "a number that may be the holder's own", history: `
		1   17 acquired asked=0 left=100
		102 18@2 acquired asked=5 left=100
		150 17 releasing asked=149 left=-49 stored=#1
		151 17 released asked=150 err=lost
		160 18@2 releasing asked=159 left=41 stored=#1
		161 18@2 released asked=160`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "a failover and no wrong release", history: `
		1   17 acquired asked=0 left=1000
		20  server fault to=30
		102 18@2 acquired asked=5 left=1000
		130 18@2 releasing asked=129 left=970 stored=18
		131 18@2 released asked=130
		150 17 releasing asked=149 left=850 stored=free
		151 17 released asked=150 err=expired`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "the key vanishes under a killed holder's eyes", history: `
		1   17 acquired asked=0
		102 18@2 acquired asked=50
		103 store 18 ttl=1000
		105 17 releasing asked=104 left=-1 stored=18
		106 17 released asked=105
		107 store free
		120 api-2 killed`, want: map[finding.Kind]int{finding.Overlaps: 1, finding.WrongReleases: 1}},
	{name: "the lease was over when the key went", history: `
		1   17 acquired asked=0 left=1000
		102 18@2 acquired asked=50
		103 store 18 ttl=50
		105 17 releasing asked=104 left=900 stored=18
		165 17 released asked=105
		166 store free
		220 api-2 killed`, want: map[finding.Kind]int{
		finding.Overlaps: 1, // 17's lock was not deleted by a release, whatever became of it
	}},
	{name: "lost update", history: `
		1 17 begun tx=1
		1 18@2 begun tx=1
		2 17 read stock=3 tx=1
		2 18@2 read stock=3 tx=1
		3 17 write stock=2 tx=1
		4 17 committed asked=3 tx=1
		5 18@2 write stock=2 tx=1
		6 18@2 committed asked=5 tx=1`, want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{name: "a lost update of an atomic one", history: `
		2 17 read stock=3 tx=1
		3 18@2 write mode=conditional tx=1
		4 18@2 committed asked=3 tx=1
		5 17 write stock=2 tx=1
		6 17 committed asked=5 tx=1`, want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{name: "atomic writes lose nothing", history: `
		2 17 read stock=3 version=1 tx=1
		3 18@2 write mode=conditional tx=1
		4 18@2 committed asked=3 tx=1
		5 17 write mode=version version=1 tx=1
		6 17 undone asked=5 tx=1 err=conflict
		7 17 write mode=conditional tx=2
		8 17 committed asked=7 tx=2`},
	{name: "undone writes lose nothing", history: `
		2 17 read stock=3 tx=1
		3 18@2 write stock=2 tx=1
		4 18@2 undone tx=1 err=deadlock
		5 17 write stock=2 tx=1
		6 17 committed asked=5 tx=1`},
	{name: "one sale after the other", history: `
		2 17 read stock=3 tx=1
		3 17 write stock=2 tx=1
		4 17 committed asked=3 tx=1
		5 18 read stock=2 tx=2
		6 18 write stock=1 tx=2
		7 18 committed asked=6 tx=2`},
	{name: "read while the other commits, and seen", history: `
		2 17 read stock=3 tx=1
		3 17 write stock=2 tx=1
		5 18 read stock=2 tx=2
		6 17 committed asked=4 tx=1
		6 18 write stock=1 tx=2
		7 18 committed asked=6 tx=2`},
	{name: "read from a snapshot after the other's commit", history: `
		1 18 begun tx=2
		2 17 read stock=3 tx=1
		3 17 write stock=2 tx=1
		4 17 committed asked=3 tx=1
		5 18 read stock=3 tx=2
		6 18 write stock=2 tx=2
		7 18 committed asked=6 tx=2`, want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{name: "read and written in two transactions under one lock", history: `
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
		11 17 releasing`, want: map[finding.Kind]int{finding.LostUpdates: 1}},
	{name: "a stale write", history: `
		1   17 acquired asked=0 left=100
		2   17 read stock=3 tx=1
		101 18@2 acquired asked=5 left=100
		300 17 write stock=2 tx=1
		302 17 committed asked=301 tx=1
		303 17 releasing left=-200
		310 18@2 releasing left=1`, want: map[finding.Kind]int{finding.StaleWrites: 1, finding.Overlaps: 1}},
	{name: "the late write is refused", history: `
		1   17 acquired asked=0 left=100
		2   17 read stock=3 tx=1
		101 18@2 acquired asked=5 left=100
		300 17 write mode=fenced token=1 tx=1
		302 17 undone asked=301 tx=1 err=stale
		303 17 releasing left=-200
		310 18@2 releasing left=1`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "a late fenced write before the next holder's", history: `
		1   17 acquired asked=0 left=100
		101 18@2 acquired asked=5 left=100
		300 17 write mode=fenced token=1 tx=1
		302 17 committed asked=301 tx=1
		303 17 releasing left=-200
		305 18@2 write mode=fenced token=2 tx=1
		306 18@2 committed asked=305 tx=1
		310 18@2 releasing left=1`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "a late fenced write that no fence held", history: `
		1   17 acquired asked=0 left=100
		101 18@2 acquired asked=5 left=100
		105 18@2 write mode=fenced token=2 tx=1
		106 18@2 committed asked=105 tx=1
		110 18@2 releasing left=1
		300 17 write mode=fenced token=1 tx=1
		302 17 committed asked=301 tx=1
		303 17 releasing left=-200`, want: map[finding.Kind]int{finding.Overlaps: 1, finding.StaleWrites: 1}},
	{name: "a commit that may have been before the grant", history: `
		1   17 acquired asked=0 left=100
		99  17 write mode=conditional tx=1
		101 18@2 acquired asked=5 left=100
		102 17 committed asked=100 tx=1
		103 17 releasing left=-2`, want: map[finding.Kind]int{finding.Overlaps: 1}},
	{name: "committed after the release", history: `
		1  17 acquired asked=0
		2  17 write stock=2 tx=1
		3  17 releasing
		4  17 released asked=3
		5  18 acquired asked=1
		10 17 committed asked=9 tx=1
		11 18 releasing`},
	{name: "told, and writes all the same", history: `
		1   17 acquired asked=0 left=100
		90  17 lost err=expired
		101 18@2 acquired asked=5
		120 17 write stock=2 tx=1
		122 17 committed asked=121 tx=1
		123 17 releasing left=-20
		124 18@2 releasing`, want: map[finding.Kind]int{finding.StaleWrites: 1}},
	{name: "stuck without an end", history: `
		1   17 acquired asked=0
		2   store 17
		10  api-1 killed
		900 18@2 refused asked=20 err=taken
		1000 end`, want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{name: "still held", history: `
		1   17 acquired asked=0
		2   store 17
		1000 end`},
	{name: "a dead holder's lease goes", history: `
		1   17 acquired asked=0
		2   store 17 ttl=500
		10  api-1 killed
		502 store free
		1000 end`},
	{name: "a dead holder's lease still runs", history: `
		1   17 acquired asked=0
		2   store 17 ttl=5000
		10  api-1 killed
		1000 end`},
	{name: "a dead holder's lease runs longer than is good", change: func(ev *judge.Evidence) { ev.Grace = 500 * time.Millisecond }, history: `
		1   17 acquired asked=0
		2   store 17 ttl=5000
		10  api-1 killed
		1000 end`, want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{name: "released, and stays", history: `
		1   17 acquired asked=0
		2   store 17
		10  17 releasing stored=17
		11  17 released asked=10 err=unavailable
		1000 end`, want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{name: "nobody was told of the grant", history: `
		1   17 asked
		2   store #anybody
		10  17 refused asked=1 err=unavailable
		1000 end`, want: map[finding.Kind]int{finding.StuckKeys: 1}},
	{name: "the grant may be on its way", history: `
		1   17 asked
		2   store #anybody
		1000 end`},
	{name: "the store does not answer at the end", history: `
		1   17 acquired asked=0
		2   store 17
		10  api-1 killed
		500 store down
		1000 end`},
	{name: "locked out", history: `
		1   17 acquired asked=0
		2   store x:17 ttl=10000
		10  17 releasing stored=x:17
		11  17 released asked=10 err=expired
		50  18 refused asked=49 err=taken
		60  19 refused asked=59 err=taken stored=17
		10002 store free`, want: map[finding.Kind]int{finding.LockedOut: 2}},
	{name: "turned away by somebody who has it", history: `
		1   17 acquired asked=0
		2   store 17
		10  18 refused asked=9 err=taken stored=17
		20  17 releasing stored=17
		21  17 released asked=20
		22  store free
		21.5 19 refused asked=19 err=taken stored=17`},
	{name: "the observer comes late", history: `
		1   17 acquired asked=0
		2   store 17
		10  17 releasing stored=17
		11  17 released asked=10
		12  19 acquired asked=5
		40  18 refused asked=39 err=taken
		50  19 releasing stored=19
		51  19 released asked=50
		60  store free`},
	{name: "what the database holds", change: func(ev *judge.Evidence) {
		ev.Audit = &order.Audit{InitialStock: 10, Stock: 3, Orders: 12, DistinctUsers: 11}
		ev.Acks = []judge.Ack{{Order: 1, User: 1}, {Order: 2, User: 2}}
		ev.Rows = []order.Order{{ID: 2}}
	}, want: map[finding.Kind]int{finding.Oversold: 2, finding.DuplicateOrders: 1, finding.LostOrders: 1}},
}

// 17 is late; its DEL takes 18's lock, 18's DEL that of 19, which was let in.
const naiveChain = `
	0   17 asked
	1   17 acquired asked=0 left=100
	1.5 store 17 ttl=99
	50  18@2 asked
	60  19 asked
	70  20@2 asked
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
