package course

import (
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

func leaseLessons() []Lesson {
	return []Lesson{{
		ID: "atomic-release", Level: Middle, Minutes: 20, Before: []string{"wrong-del"},
		Title: both("The release compares first. Is that enough?", "释放之前先比较。这样够了吗？"),
		Goal:  both("Say what can come between two commands, and close the gap.", "说出两条命令之间会发生什么，并堵上这个空隙。"),
		Tasks: []Task{
			predict("uuid-between-compare-and-delete", "breaks:wrong_releases", thinks("holds",
				"You expected the comparison to protect the DEL. It was right when it was made. Then the lease ended.",
				"你以为比较保护了 DEL。比较的时候没错，随后租约到期了。")),
			predict("lua-atomic-release", "holds", thinks("breaks",
				"You expected that a script can be interrupted, too. Redis runs nothing else meanwhile.",
				"你以为脚本也会被打断。脚本运行期间，Redis 不做别的事。")),
			{Kind: Repair, Template: "release"},
		},
		Hints: [3]i18n.Text{
			both("What may happen between the GET and the DEL?", "GET 和 DEL 之间会发生什么？"),
			both("The report has a line “the key expires” between two lines of process 1. In the program: the function release.", "报告里，process 1 的两行之间有一行“the key expires”。程序里：看 release 函数。"),
			both("Send one script with l.client.Eval: if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) …", "用 l.client.Eval 发送一个脚本：if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) …"),
		},
		Trouble: both("A pipeline or MULTI is offered: both send the DEL whatever the GET has found. Let them say which command decides.",
			"有人会提 pipeline 或 MULTI：不管 GET 读到什么，它们都会发出 DEL。让他们说说由哪条命令来决定。"),
	}, {
		ID: "lease", Level: Middle, Minutes: 15, Before: []string{"dead-holder"},
		Title: both("How long must a lease be?", "租约要多长？"),
		Goal:  both("Find the lease that the work needs, and say what it costs when a holder dies.", "找出这项工作需要的租期，并说出持有者死亡时的代价。"),
		Tasks: []Task{
			predict("lua-lease-too-short", "breaks:overlaps", thinks("holds",
				"You expected a correct release to be enough. Nobody has released: the lease ended during the work, and two hold the lock.",
				"你以为正确的释放就够了。并没有人释放：工作还没做完租约就到期了，于是有两个持有者。")),
			{Kind: Cause, Experiment: "lua-lease-too-short", Answer: string(finding.Expires)},
			{Kind: Hold, Experiment: "lua-lease-too-short", Allowed: []string{"lease"}, Answer: "lease=3s"},
			{Kind: Smallest, Experiment: "lua-lease-too-short", Parameter: "lease", Answer: "1.7s"},
		},
		Hints: [3]i18n.Text{
			both("How long does buyer 1 work?", "买家 1 工作多久？"),
			both("In the picture: the distance from “reads” to “writes” in the lane of buyer 1.", "在图中看：买家 1 的泳道里，从“读到”到“写入”的距离。"),
			both("The work takes 1.5 s; lab sweep lua-lease-too-short --lease 1200ms..2s --steps 5 shows where it turns.", "工作用 1.5 秒；lab sweep lua-lease-too-short --lease 1200ms..2s --steps 5 显示从哪里开始变化。"),
		},
		Trouble: both("“Then one hour.” Ask how long everybody waits after a holder has died. That is the next lesson.", "“那就设一小时。”问他们持有者死后大家要等多久。这就是下一课。"),
	}, {
		ID: "watchdog", Level: Middle, Minutes: 25, Before: []string{"lease"},
		Title: both("Who renews the lease, and whose?", "由谁续期，续的是谁的租约？"),
		Goal:  both("Say what a renewal proves, and what it has to ask.", "说出续期能证明什么，以及它必须先问什么。"),
		Tasks: []Task{
			predict("watchdog-keeps-long-holder", "holds", thinks("breaks",
				"You expected the lease to end during the work. It is renewed every third of it.",
				"你以为工作期间租约会到期。每过三分之一租期，它就续期一次。")),
			{Kind: Repair, Template: "watchdog"},
		},
		Hints: [3]i18n.Text{
			both("Whose lock does the former holder prolong?", "前一个持有者延长的是谁的锁？"),
			both("The report: process 2 is killed, and process 3 still waits after its lease. In the program: the function prolong.", "报告里：process 2 被杀死，租期过后 process 3 仍在等。程序里：看 prolong 函数。"),
			both("PEXPIRE asks nobody. One script: if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]).", "PEXPIRE 谁也不问。用一个脚本：if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2])。"),
		},
		Trouble: both("The lock sells right with and without the fault: two sales do not show it. That is the point of judging behaviours.",
			"有没有这个错误，卖得都对：两场售卖看不出来。这正是要逐条检验行为的原因。"),
	}}
}

// outsideLessons are about what a lock cannot do alone.
func outsideLessons() []Lesson {
	return []Lesson{{
		ID: "commit-and-finally", Level: Middle, Minutes: 15, Before: []string{"lease"},
		Title: both("When is the lock given back: before the commit, and after a panic?", "锁何时归还：提交之前？panic 之后？"),
		Goal:  both("Put the release where it belongs.", "把释放放在该放的地方。"),
		Tasks: []Task{
			predict("release-before-commit", "breaks:duplicate_orders", map[string]i18n.Text{
				"oversold": both("You expected overselling. The stock is taken by a condition here. What the next holder does not see is the order of the same user.",
					"你以为会超卖。这里扣库存靠的是条件。下一个持有者看不到的是同一用户的订单。"),
				"holds": both("You expected the lock to cover the order. It was given back while the order could not be seen yet.",
					"你以为锁覆盖了下单。锁归还时，订单还看不见。"),
			}),
			{Kind: Cause, Experiment: "release-before-commit", Answer: string(finding.Releases)},
			predict("commit-before-release", "holds", thinks("breaks",
				"You expected a gap to be left. The next holder reads after the commit: it finds the order.",
				"你以为仍有空隙。下一个持有者在提交之后才读：它找得到订单。")),
			predict("panic-skips-release", "breaks:stuck_keys", thinks("holds",
				"You expected the lease to end. The process lives, and so its watchdog renews what nobody will give back.",
				"你以为租约会到期。进程还活着，所以看门狗一直在续一把没人会归还的锁。")),
		},
		Hints: [3]i18n.Text{
			both("What can the next holder see when it gets the lock?", "下一个持有者得到锁时，看得到什么？"),
			both("In the picture: the release in the lane of the first request, and the first write in the lane of the database.", "在图中看：第一个请求泳道里的释放，和数据库泳道里的第一次写入。"),
			both("The first “releases” comes before the first “stock −1”.", "第一个“释放”在第一个“库存 −1”之前。"),
		},
		Trouble: both("In Java it is @Transactional around a method that locks inside. Have somebody write that on the wall.", "在 Java 里，这就是 @Transactional 套在内部加锁的方法外面。请一个人写到黑板上。"),
	}, {
		ID: "pause-and-fence", Level: Middle, Minutes: 20, Before: []string{"watchdog"},
		Title: both("The whole process pauses. What helps?", "整个进程停住了。什么能救场？"),
		Goal:  both("Say why no lock helps here, and what the database can do.", "说出为什么这里任何锁都帮不上，以及数据库能做什么。"),
		Tasks: []Task{
			predict("paused-holder", "breaks:stale_writes", thinks("holds",
				"You expected the watchdog to renew. It is a part of the process, and was paused with it.",
				"你以为看门狗会续期。它是进程的一部分，和进程一起停住了。")),
			{Kind: Cause, Experiment: "paused-holder", Answer: string(finding.Expires)},
			{Kind: Hold, Experiment: "paused-holder", Allowed: []string{"stock-mode"}, Answer: "stock-mode=version"},
			predict("paused-holder-fenced", "holds", thinks("breaks",
				"You expected the late write to go through. Its token is older than the newest that the row has seen.",
				"你以为迟到的写入会成功。它的令牌比这一行见过的最新令牌旧。")),
		},
		Hints: [3]i18n.Text{
			both("Who can refuse a write that comes too late?", "谁能拒绝一次来得太晚的写入？"),
			both("In the picture: what does the database hold when buyer 1 wakes up, and what does buyer 1 still believe?", "在图中看：买家 1 醒来时，数据库里是什么，买家 1 还以为是什么？"),
			both("The write can be conditional on the version that was read: stock-mode=version.", "写入可以以读到的版本号为条件：stock-mode=version。"),
		},
		Trouble: both("“Check the lock again before the write.” Ask for a pause between the check and the write.", "“写之前再检查一次锁。”请他们在检查和写入之间再停一次。"),
	}}
}
