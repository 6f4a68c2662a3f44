package stage

import (
	"maps"
	"strconv"
	"strings"

	"seckill/internal/testkit"
)

// Commands is how often a redis-server carried out each command since its start, also
// from within scripts.
type Commands map[string]int64

// Commands asks a redis-server; nil is the shared one. The difference of two answers is
// what came in between, an [Observer]'s questions and those of traced processes among
// them: see [Untraced].
func (s *Stage) Commands(of *testkit.RedisServer) Commands {
	client := s.RedisClient() // whose connection stands, so that asking costs no more than the question
	if of != nil {
		client = of.Client(s)
	}
	info := client.InfoMap(s.ctx, "commandstats")
	s.must(info.Err())
	c := Commands{}
	for name, stats := range info.Val()["Commandstats"] {
		calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		s.must(err)
		c[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return c
}

// Since is what came after an earlier answer, the questions themselves left out.
func (c Commands) Since(earlier Commands) Commands {
	came := maps.Clone(c)
	for name, n := range earlier {
		came[name] -= n
	}
	maps.DeleteFunc(came, func(name string, n int64) bool { return n == 0 || name == "info" })
	return came
}

// Total is all of them, whatever their names.
func (c Commands) Total() int64 {
	var total int64
	for _, n := range c {
		total += n
	}
	return total
}
