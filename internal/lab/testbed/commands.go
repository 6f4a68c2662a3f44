package testbed

import (
	"maps"
	"strconv"
	"strings"

	"seckill/internal/testkit"
)

// Commands counts how often a redis-server has executed each command since its start,
// including commands in scripts.
type Commands map[string]int64

// Commands asks a redis-server; nil is the shared one. The difference of two answers is what
// was executed in between, including the requests of an [Observer] and of processes that
// record events: see [Untraced].
func (r *Run) Commands(of *testkit.RedisServer) Commands {
	client := r.RedisClient() // already connected, so that asking costs no further commands
	if of != nil {
		client = of.Client(r)
	}
	info := client.InfoMap(r.ctx, "commandstats")
	r.must(info.Err())
	c := Commands{}
	for name, stats := range info.Val()["Commandstats"] {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		r.must(err)
		c[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return c
}

// Since returns what was executed after an earlier answer, without the INFO commands
// themselves.
func (c Commands) Since(earlier Commands) Commands {
	came := maps.Clone(c)
	for name, n := range earlier {
		came[name] -= n
	}
	maps.DeleteFunc(came, func(name string, n int64) bool { return n == 0 || name == "info" })
	return came
}

// Total is the sum over all commands.
func (c Commands) Total() int64 {
	var total int64
	for _, n := range c {
		total += n
	}
	return total
}
