package course

import (
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

func hardLessons() []Lesson {
	return []Lesson{{
		ID: "majority", Level: Hard, Minutes: 25, Before: []string{"pause-and-fence"},
		Title: both("Does a majority of nodes make a lock safe?", "多数节点能让锁变安全吗？"),
		Goal:  both("Say what several nodes help against, and what they do not.", "说出多个节点能防什么，不能防什么。"),
		Tasks: []Task{
			predict("red-paused-holder", "breaks:stale_writes", thinks("holds",
				"You expected the nodes to help. They do not change what a paused process believes.",
				"你以为节点多了就行。停住的进程以为什么，节点改变不了。")),
			predict("red-node-restarts-empty", "breaks:overlaps", thinks("holds",
				"You expected the majority to remember. One node of it restarted without its data, and votes again.",
				"你以为多数派会记得。其中一个节点丢了数据重启，又投了一次票。")),
			{Kind: Cause, Experiment: "red-node-restarts-empty", Answer: string(finding.Notes)},
			{Kind: ByHand, Lock: "red", Aim: finding.Overlaps, Most: 7, Answer: voterForgets},
			predict("red-minority-down", "holds", thinks("breaks",
				"You expected that every node is needed. Two of three are a majority.",
				"你以为每个节点都要在。三个里有两个就是多数。")),
		},
		Hints: [3]i18n.Text{
			both("Which node belongs to both majorities, and what does it remember?", "哪个节点同时属于两个多数派？它还记得什么？"),
			both("In the picture: the event in the lane of faults between the two grants.", "在图中看：两次授予之间，故障泳道里的事件。"),
			both("By hand: kill node 3, P1 acquires, start node 3, kill and start node 2, P2 acquires.", "亲手操作：杀死节点 3，P1 加锁，启动节点 3，杀死并启动节点 2，P2 加锁。"),
		},
		Trouble: both("They kill two nodes before P1 acquires: then it gets no majority. The node that votes twice has to be in the first one.",
			"他们在 P1 加锁前就杀死两个节点：那样它拿不到多数。投两次票的节点必须在第一个多数派里。"),
	}, {
		ID: "your-own-lock", Level: Hard, Minutes: 20, Before: []string{"watchdog"},
		Title: both("The same owner acquires twice. What does the inner lease do to the outer one?", "同一身份加锁两次。内层的租约会对外层做什么？"),
		Goal:  both("Mend the documents' hash lock, and judge a lock as a whole.", "改好文档里的哈希锁，并把一把锁当作整体来评判。"),
		Tasks: []Task{
			predict("nested-without-reentry", "breaks", thinks("holds",
				"You expected an owner to get in twice. A lock that is one string knows only that it is taken.",
				"你以为同一身份能进两次。一个字符串的锁只知道自己被占用。")),
			{Kind: Repair, Template: "reentry"},
		},
		Hints: [3]i18n.Text{
			both("Which of the two leases is in the store after the second acquisition?", "第二次加锁之后，存储里是哪个租期？"),
			both("The report: both acquisitions, with their leases, and when process 2 gets in. In the program: acquireLua.", "报告里：两次加锁各自的租期，以及 process 2 何时进来。程序里：看 acquireLua。"),
			both("Only prolong: if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then PEXPIRE.", "只延长，不缩短：if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then PEXPIRE。"),
		},
		Trouble: both("Some leave PEXPIRE out for a re-entry. The check accepts it, and so does the documents' unlock script: ask which is better for an inner lease that is longer.",
			"有人在重入时干脆不 PEXPIRE。检查会通过，文档里的释放脚本也是如此：问他们内层租期更长时哪种更好。"),
	}}
}

// voterForgets is a script of the bench: a node that granted the lock restarts empty.
const voterForgets = `{"format": "seckill by hand", "version": 1,
 "setup": {"lock": "red", "processes": 2, "lease": 20, "wait": 0, "renew": true},
 "moves": [{"do": "kill-node", "node": 3, "after_ms": 0}, {"do": "acquire", "process": 1, "after_ms": 300},
           {"do": "start-node", "node": 3, "after_ms": 300}, {"do": "kill-node", "node": 2, "after_ms": 300},
           {"do": "start-node", "node": 2, "after_ms": 300}, {"do": "acquire", "process": 2, "after_ms": 300}]}`

// furtherLessons are for those who go on.
func furtherLessons() []Lesson {
	return []Lesson{{
		ID: "database-condition", Level: Hard, Minutes: 20, Before: []string{"no-lock"},
		Title: both("A version or a condition: which one sells everything?", "版本号还是条件：哪一个能全部卖完？"),
		Goal:  both("Compare the database's own ways to take one from the stock.", "比较数据库自己扣减库存的几种方式。"),
		Tasks: []Task{
			predict("version-cas-no-lock", "holds", thinks("breaks",
				"You expected overselling. Whoever has read an old version writes nothing.",
				"你以为会超卖。读到旧版本号的人什么也写不进去。")),
			predict("version-rush", "breaks:undersold", thinks("holds",
				"You expected a refused buyer to come again. Nobody repeats it: units are left though buyers were refused.",
				"你以为被拒绝的买家会再来。没有人重试：买家被拒绝，券却有剩。")),
			{Kind: Hold, Experiment: "version-rush", Allowed: []string{"stock-mode"}, Answer: "stock-mode=conditional"},
			predict("count-then-insert", "breaks:oversold", thinks("holds",
				"You expected the count to be true when the order is written. It was true when it was read.",
				"你以为写订单时计数仍然成立。它只在读的时候成立。")),
		},
		Hints: [3]i18n.Text{
			both("What must the buyer know to write?", "买家要知道什么才能写入？"),
			both("In the table of results: how many were told that somebody else was faster, and how many units are left.", "看结果表：有多少人被告知别人更快，又剩下多少份。"),
			both("WHERE stock > 0 asks only for what is needed: stock-mode=conditional.", "WHERE stock > 0 只问需要问的：stock-mode=conditional。"),
		},
		Trouble: both("“Then repeat it.” Right; let them count the attempts for 100 buyers.", "“那就重试。”对；让他们算一算 100 个买家要试多少次。"),
	}, {
		ID: "orders-life", Level: Hard, Minutes: 15, Before: []string{"commit-and-finally"},
		Title: both("Redis took the unit, and the order is not there. Where is it?", "Redis 扣了库存，订单却不在。它去哪儿了？"),
		Goal:  both("Say which steps of an order must be one.", "说出一个订单的哪些步骤必须合成一步。"),
		Tasks: []Task{
			predict("stock-before-user", "breaks:undersold", thinks("holds",
				"You expected the refused buyer's unit to come back. It was taken before the user was looked up.",
				"你以为被拒绝的买家会把那一份还回来。查用户之前就已经扣了。")),
			predict("message-apart", "breaks:lost_orders", thinks("holds",
				"You expected the message to be sent. The connection broke between taking the unit and sending it.",
				"你以为消息会发出去。扣库存和发消息之间，连接断了。")),
			predict("message-in-script", "holds", thinks("breaks",
				"You expected a gap between stock and message. The script has both, or none.",
				"你以为库存和消息之间有空隙。脚本里两样都有，或者都没有。")),
		},
		Hints: [3]i18n.Text{
			both("What is done when the connection breaks in the middle?", "中途断线时，做了哪些？"),
			both("In the picture: “takes a unit”, and what should come next in the same lane.", "在图中看：“扣一份”，以及同一泳道里接下来本该有的事件。"),
			both("Unit, user and message in one script: message-in-script.", "库存、用户和消息放进一个脚本：message-in-script。"),
		},
		Trouble: both("They propose a retry. The picture shows why it does not help: the buyer is told that he has an order.", "他们会提议重试。图里看得出为什么没用：买家被告知已经有订单了。"),
	}, {
		ID: "be-the-scheduler", Level: Hard, Minutes: 20, Before: []string{"wrong-del"},
		Title: both("Every message waits for you. How little bad luck breaks it?", "每条消息都等你放行。最少要多少坏运气才能打破它？"),
		Goal:  both("Break locks with the least bad luck, and say which cannot be broken so.", "用最少的坏运气打破锁，并说出哪把锁这样打不破。"),
		Tasks: []Task{
			{Kind: Schedule, Lock: "naive", Aim: finding.Overlaps, Budget: onceLate, Answer: "naive~2~s1-q1-r1-t-s2-q2-r2"},
			{Kind: Schedule, Lock: "thread-id", Aim: finding.LostUpdates, Budget: onceLate, Answer: "thread-id~2~s1-q1-r1-t-s2-q2-r2-w2-q2-r2-q2-r2-w1"},
		},
		Hints: [3]i18n.Text{
			both("What has to end while its holder still works?", "持有者还在工作时，什么必须到期？"),
			both("Let buyer 1 be granted the lock, and then let time go on before its work.", "先让买家 1 得到锁，再在它工作之前让时间前进。"),
			both("s1 q1 r1 t s2 q2 r2: buyer 1 gets the lock, its key ends, buyer 2 gets it.", "s1 q1 r1 t s2 q2 r2：买家 1 得到锁，它的键到期，买家 2 得到锁。"),
		},
		Trouble: both("They tap at random. Ask what they want to have happened at the end, and go back from there.", "他们会乱点。问他们最后想看到什么，再倒着推回去。"),
	}}
}
