package course

import (
	"slices"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// both is a text in English and in Chinese.
var both = i18n.Both

// Lessons are the course, in its order: twelve lessons, and three for those who go on.
func Lessons() []Lesson {
	return slices.Concat(firstLessons(), releaseLessons(), leaseLessons(), outsideLessons(), hardLessons(), furtherLessons())
}

// predict asks for a prediction. thoughts are pairs of a wrong prediction and what was thought.
func predict(experiment, answer string, thoughts map[string]i18n.Text) Task {
	return Task{Kind: Predict, Experiment: experiment, Answer: answer, Thoughts: thoughts}
}

// thinks is what who predicts wrongly has in mind.
func thinks(prediction, english, chinese string) map[string]i18n.Text {
	return map[string]i18n.Text{prediction: both(english, chinese)}
}

func firstLessons() []Lesson {
	return []Lesson{{
		ID: "no-lock", Level: First, Minutes: 15,
		Title: both("60 buyers, 10 units, no lock: what is sold?", "60 个买家、10 份券、没有锁：卖出了什么？"),
		Goal:  both("Say why reading and writing back needs protection, and what gives it without a lock.", "说出先读再写为什么需要保护，以及不用锁时靠什么保护。"),
		Tasks: []Task{
			predict("no-lock", "breaks:oversold", map[string]i18n.Text{
				"duplicate_orders": both("You expected duplicate orders. The unique index refuses those: each buyer here is another user. What nothing refuses is the eleventh order.",
					"你以为会重复下单。唯一索引会拒绝它们，而且这里每个买家都是另一个用户。没有东西拒绝的是第十一个订单。"),
				"undersold": both("You expected units that nobody gets. Lost writes work the other way here: the stock falls too slowly.",
					"你以为会有卖不出去的券。丢失的写入在这里正相反：库存减得太慢。"),
				"holds": both("You expected each buyer to see what the one before has written. All of them had read before the first one wrote.",
					"你以为每个买家都看得到前一个写入的值。可是第一个写入之前，大家都已经读过了。"),
			}),
			{Kind: Hold, Experiment: "no-lock", Allowed: []string{"stock-mode"}, Answer: "stock-mode=conditional"},
			predict("conditional-stock-no-lock", "holds", thinks("breaks",
				"You expected that it needs a lock. The database compares and writes in one statement; nothing comes between.",
				"你以为必须有锁。数据库在一条语句里比较并写入，中间插不进任何东西。")),
		},
		Hints: [3]i18n.Text{
			both("What has buyer 2 read when buyer 1 writes?", "买家 1 写入时，买家 2 读到的是什么？"),
			both("Look at the signs “reads 10” in both lanes, and at the two writes to the right of them.", "看两条泳道里的“读到 10”，再看它们右边的两次写入。"),
			both("lab show no-lock lists the ways to take from the stock; UPDATE … WHERE stock > 0 is stock-mode=conditional.", "lab show no-lock 列出扣减库存的几种方式；UPDATE … WHERE stock > 0 就是 stock-mode=conditional。"),
		},
		Trouble: both("Many say “duplicates”. Ask what the unique index is on. Some want a lock at once: task 2 shows that the statement is enough for the stock.",
			"很多人会答“重复下单”。问他们唯一索引建在哪些列上。有人一上来就要锁：第 2 题说明，对库存来说一条语句就够了。"),
	}, {
		ID: "two-processes", Level: First, Minutes: 10, Before: []string{"no-lock"},
		Title: both("Each process has a mutex. Is that a lock?", "每个进程都有一把互斥锁。这算锁吗？"),
		Goal:  both("Say where a lock has to be kept for several processes.", "说出多个进程的锁必须放在哪里。"),
		Tasks: []Task{
			predict("local-two-processes", "breaks:oversold", thinks("holds",
				"You expected the mutex to keep all buyers apart. It is a variable in the memory of one process; the other one has another.",
				"你以为互斥锁能把所有买家隔开。它只是一个进程内存里的变量，另一个进程有自己的一把。")),
			{Kind: Hold, Experiment: "local-two-processes", Allowed: []string{"lock"}, Answer: "lock=reentrant"},
		},
		Hints: [3]i18n.Text{
			both("Who can see that a mutex is taken?", "谁看得到互斥锁被占用？"),
			both("The two buyers that hold at the same time are of different processes: see the names in brackets.", "同时持有的两个买家属于不同的进程：看括号里的名字。"),
			both("Any lock that is kept in Redis will do: lock=reentrant.", "任何放在 Redis 里的锁都行：lock=reentrant。"),
		},
		Trouble: both("Somebody will say that one process is enough. True, until it is deployed twice: for a moment at every deployment.",
			"会有人说一个进程就够了。没错，直到它被部署了两份：每次发布都会有那么一刻。"),
	}, {
		ID: "dead-holder", Level: First, Minutes: 15, Before: []string{"two-processes"},
		Title: both("The holder dies. Who gets the lock?", "持有者死了。谁能得到锁？"),
		Goal:  both("Say why a lock in a store needs a lease.", "说出放在存储里的锁为什么需要租约。"),
		Tasks: []Task{
			predict("setnx-holder-killed", "breaks:stuck_keys", thinks("holds",
				"You expected that the lock goes with its holder. The key is in Redis, which knows nothing of processes.",
				"你以为锁会随持有者一起消失。键在 Redis 里，而 Redis 不知道进程的死活。")),
			{Kind: Cause, Experiment: "setnx-holder-killed", Answer: string(finding.Killed)},
			predict("naive-holder-killed", "holds", thinks("breaks",
				"You expected the key to stay. It has an expiry: after one lease the next buyer gets in.",
				"你以为键会一直留着。它有过期时间：一个租期之后，下一个买家就能进来。")),
		},
		Hints: [3]i18n.Text{
			both("Who would have deleted the key?", "本来该由谁删除这个键？"),
			both("In the picture: the last thing that happens to buyer 1, before its lane ends.", "在图中看：买家 1 的泳道结束之前，最后发生了什么。"),
			both("It is the event “killed”.", "就是“被杀死”这个事件。"),
		},
		Trouble: both("“Then catch the exception and delete.” A killed process catches nothing: let them say what kill -9 leaves to run.",
			"“那就捕获异常再删除。”被杀死的进程什么也捕获不了：让他们说说 kill -9 之后还有什么能运行。"),
	}}
}

func releaseLessons() []Lesson {
	return []Lesson{{
		ID: "wrong-del", Level: First, Minutes: 25, Before: []string{"dead-holder"},
		Title: both("The key expires, and its holder comes late. What does its DEL delete?", "键过期了，持有者来晚了。它的 DEL 删掉的是什么？"),
		Goal:  both("Bring a wrong release about, and mend it.", "亲手造成一次误删，再把它改好。"),
		Tasks: []Task{
			predict("naive-wrong-release", "breaks:wrong_releases", thinks("holds",
				"You expected that a late DEL finds nothing. By then the key is there again: it is the next holder's.",
				"你以为迟到的 DEL 什么也删不到。那时键又在了：是下一个持有者的。")),
			{Kind: Cause, Experiment: "naive-wrong-release", Answer: string(finding.Expires)},
			{Kind: ByHand, Lock: "naive", Aim: finding.WrongReleases, Most: 6, Answer: wrongReleaseByHand},
			{Kind: Repair, Template: "delete"},
		},
		Hints: [3]i18n.Text{
			both("Whose key is it at the moment of the DEL?", "DEL 的那一刻，键是谁的？"),
			both("By hand: P1 acquires, let the lease run out, P2 acquires. Which button of P1 does harm now? In the program: the function release.",
				"亲手操作：P1 加锁，让租约到期，P2 加锁。现在 P1 的哪个按钮会闯祸？程序里：看 release 函数。"),
			both("release has the value of this acquisition, and does not use it: GET, compare, and only then DEL.", "release 拿到了这次加锁的值，却没有用它：先 GET，比较，然后才 DEL。"),
		},
		Trouble: both("Some shorten the moves by deleting the key by hand: that is no wrong release. The lease has to end by itself.",
			"有人为了省步骤，手动删除键：那不算误删。租约必须自己到期。"),
	}, {
		ID: "find-the-bug", Level: First, Minutes: 15, Before: []string{"wrong-del"},
		Title: both("The release reports success, and everybody waits. Why?", "释放报告成功，大家却都在等。为什么？"),
		Goal:  both("Find a fault from what is seen, and not from the program.", "从看到的现象找错误，而不是从程序里找。"),
		Tasks: []Task{
			predict("uuid-wrong-key", "breaks:locked_out", thinks("holds",
				"You expected that a release that reports success has released. It has looked at another key, and found nothing to do.",
				"你以为报告成功的释放就是释放了。它看的是另一个键，发现没什么可做。")),
			{Kind: Repair, Template: "name"},
		},
		Hints: [3]i18n.Text{
			both("Which key does each command name?", "每条命令里写的是哪个键？"),
			both("The report names two keys: one that is held, and one that could not be acquired. What have they in common?", "报告里有两个键：一个被持有，一个拿不到。它们有什么共同点？"),
			both("%.4s keeps four characters of the key: seat and seat:1 are one lock.", "%.4s 只保留键的前四个字符：seat 和 seat:1 成了同一把锁。"),
		},
		Trouble: both("They read the program from the top. Send them back to the report: it names the two keys.", "他们会从头读程序。让他们回去看报告：两个键就写在那里。"),
	}}
}

// wrongReleaseByHand is a script of the bench.
const wrongReleaseByHand = `{"format": "seckill by hand", "version": 1,
 "setup": {"lock": "naive", "processes": 2, "lease": 1, "wait": 0},
 "moves": [{"do": "acquire", "process": 1, "after_ms": 0}, {"do": "let-lease-run-out", "after_ms": 0},
           {"do": "acquire", "process": 2, "after_ms": 0}, {"do": "release", "process": 1, "after_ms": 100}]}`

// onceLate is a budget in which one message waits, and one key ends.
var onceLate = explore.Budget{explore.Preemption: 1, explore.Expiry: 1}
