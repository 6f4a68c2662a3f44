package main

// inLocks lists faults of the locks and of what stands below them: the watchdog, tokens, machine ids.
func inLocks() []mutant {
	const (
		redis    = "./internal/lock/redis"
		quorum   = "./internal/lock/redis ./internal/lock/redis/quorum"
		ids      = "./internal/idworker"
		watching = "./internal/lock/watchdog ./internal/lock/redis"
		eviction = "./internal/rediswatch"
	)
	return []mutant{
		{"a release deletes whoever's lock it is", "internal/lock/redis/lua/release.lua", "if value ~= ARGV[1] then", "if false then", redis},
		{"a release looks at the value and deletes all the same", "internal/lock/redis/uuid/uuid.go",
			"		case found != a.Value:", "		case false:", redis},
		{"a release deletes without comparing, by a command of the server", "internal/lock/redis/native/native.go",
			`[]any{"delifeq", a.Name, a.Value}`, `[]any{"del", a.Name}`, redis},
		{"a renewal writes over another's lock", "internal/lock/redis/native/lease.go",
			`"ifeq", h.Value, "get"`, `"get"`, "./internal/lock/redis/native"},
		{"a lock that no replica has acknowledged is granted", "internal/lock/redis/session/replicas.go",
			"if n < s.config.Replicas {", "if n < 0 {", "./internal/lock/redis/waited"},
		{"WAIT counts the replicas that have nothing in particular", "internal/lock/redis/session/replicas.go",
			"		_ = both.Process(ctx, renewed)\n", "		_ = client.Pipeline().Process(ctx, renewed)\n", "./internal/lock/redis/waited"},
		{"the key never expires", "internal/lock/redis/naive/naive.go",
			"a.Client.SetNX(ctx, a.Name, a.Value, a.TTL)", "a.Client.SetNX(ctx, a.Name, a.Value, 0)", redis},
		{"a lock that is held is granted to another", "internal/lock/redis/reentrant/acquire.lua",
			"  if holder ~= owner then\n    return refused(holder)\n  end\n  return reenter()", "  return reenter()", redis},
		{"a release forgets the queue", "internal/lock/redis/reentrant/release.lua",
			"if not grant_next(lock, queue, tonumber(ARGV[7])) then", "if true then", redis},
		{"the next caller passes the queue of a fair lock", "internal/lock/redis/fair/acquire.lua",
			"if holder == owner or not holder and (not first or first == entry) then", "if holder == owner or not holder then", redis},
		{"a dead waiter keeps its place in a fair lock's queue", "internal/lock/redis/fair/queue.lua",
			"if ends and tonumber(ends) > time then", "if ends then", redis},
		{"nobody is woken by the release of a fair lock", "internal/lock/redis/fair/release.lua",
			"  notify(lock, first)\nend\nreturn ends", "end\nreturn ends", redis},
		{"an attempt without a reply is forgotten", "internal/lock/redis/session/acquire.go",
			"			r.unanswered.Store(true)\n", "", "./internal/lock/redis/session"},
		{"half of the nodes are a majority", "internal/lock/redis/red/red.go", "len(nodes)/2+1", "len(nodes)/2", redis},
		{"the drift of clocks is ignored", "internal/lock/redis/quorum/config.go",
			"return time.Duration(float64(ttl)*c.DriftFactor) + rounding", "return 0 * ttl", quorum},
		{"a node extends another's lock", "internal/lock/redis/quorum/extend.lua", "if value ~= ARGV[1] then", "if false then", quorum},
		{"a token does not grow when its counter is lost", "internal/lock/redis/fenced/token.lua",
			"math.max(newest + 1, tonumber(new_ticket()))", "math.max(newest, 1)", redis},
		{"a token does not grow when the server's clock steps back", "internal/lock/redis/fenced/acquire_free.lua",
			"if newest and tonumber(newest) >= us then", "if false then", "./internal/lock/redis ./internal/lock/lockers"},
		{"a reader gets in while a writer writes", "internal/lock/redis/rw/read.lua",
			"elseif s.writers > 0 then\n  wait = s.last_end - s.time\n", "", redis},
		{"the watchdog gives up after one failure", "internal/lock/watchdog/watchdog.go",
			"e.next = w.retryAt(e, start)", "e.next = e.until", watching},
		{"a lock in MySQL tells its holder after its session has ended", "internal/lock/mysql/mysqlio/lease.go",
			"	l.tellHolder(ctx)", "	defer l.tellHolder(ctx)", "./internal/lock/mysql/mysqlio"},
		{"a lock is taken on a connection that is broken", "internal/lock/mysql/mysqlio/session.go",
			"!errors.Is(err, sql.ErrNoRows) {\n		s.broken = true", "!errors.Is(err, sql.ErrNoRows) {\n		s.broken = false", "./internal/lock/mysql/mysqlio"},
		{"what GET_LOCK answers is ignored", "internal/lock/mysql/getlock/getlock.go", "case !got.Bool:", "case false:", "./internal/lock/mysql/getlock"},
		{"a row is taken over before it has expired", "internal/lock/mysql/row/row.go",
			" AND expires_at <= UTC_TIMESTAMP(6)\",", "\",", "./internal/lock/mysql/row"},
		{"a waiter gets in although a holder lives", "internal/lock/zookeeper/queue/entry.go",
			"		case at == 0:", "		case at == 0 || e.waited:", "./internal/lock/zookeeper/queue"},
		{"a lock is a row that is not committed", "internal/lock/mysql/row/row.go", " FROM DUAL WHERE @@autocommit\",", " FROM DUAL\",", "./internal/lock/mysql/row"},
		{"a lock is taken on a connection that commits nothing", "internal/lock/mysql/mysqlio/session.go",
			"case failure == nil && commits:", "case failure == nil && (commits || !commits):", "./internal/lock/mysql/mysqlio"},
		{"each renewal that fails is logged", "internal/idworker/renewals.go", "if len(r.failing) == 0 {\n		r.log.Warn", "if len(r.failing) >= 0 {\n		r.log.Warn", ids},
		{"a machine id is renewed for whoever asks", "internal/idworker/renew.lua", "if holder ~= ARGV[1] then", "if false then", ids},
		{"an id is made twice after the clock stepped back", "internal/idworker/generator.go",
			"case tick < g.last || tick == g.last && sequence <= g.sequence:", "case false:", ids},
		{"a clock that steps back far is trusted", "internal/idworker/generator.go", "	case tick < g.last-maxStepBack:", "	case false:", ids},
		{"ids are made beyond the end of the machine id's lease", "internal/idworker/generator.go", "	g.deadline = r.deadline\n", "", ids},
		{"a machine id is leased again without a pause", "internal/idworker/acquire.lua", "  if left > 0 then", "  if false then", ids},
		{"orders are placed in a Redis that evicts keys with an expiry", "internal/rediswatch/query.go",
			`return s.policy != "" && s.policy != noEviction`, `return s.policy != "" && s.policy == "allkeys-lru"`, eviction},
	}
}
