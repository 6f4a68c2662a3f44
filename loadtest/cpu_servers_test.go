package loadtest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/procfs"

	"seckill/internal/testkit/fail"
)

// cpu is processor time in seconds: of the processes that answer, and of wrk.
type cpu struct{ service, redis, mariadb, bare, wrk float64 }

func (c cpu) plus(o cpu) cpu {
	return cpu{c.service + o.service, c.redis + o.redis, c.mariadb + o.mariadb, c.bare + o.bare, c.wrk + o.wrk}
}

func (c cpu) minus(o cpu) cpu {
	return cpu{c.service - o.service, c.redis - o.redis, c.mariadb - o.mariadb, c.bare - o.bare, c.wrk - o.wrk}
}

// each is the processor time per request, in µs.
func (c cpu) each(n float64) cpu {
	return cpu{c.service / n * 1e6, c.redis / n * 1e6, c.mariadb / n * 1e6, c.bare / n * 1e6, c.wrk / n * 1e6}
}

// String names the processes that took part.
func (c cpu) String() string {
	var parts []string
	for _, p := range []struct {
		name string
		time float64
	}{{"service", c.service}, {"Redis", c.redis}, {"MariaDB", c.mariadb}, {"bare gin", c.bare}, {"wrk", c.wrk}} {
		if p.time >= 0.5 {
			parts = append(parts, fmt.Sprintf("%s %.1f", p.name, p.time))
		}
	}
	return strings.Join(parts, ", ")
}

func (c cpu) sum() float64 { return c.service + c.redis + c.mariadb + c.bare + c.wrk }

// busy is the processor time so far of everything but wrk. The bare handler is in this process, which does nothing else
// during the load.
func (s *benchService) busy(b *testing.B) cpu {
	b.Helper()
	resp, err := http.Get(s.api.debug + "/metrics")
	fail.NowIf(b, err)
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	fail.NowIf(b, err)
	own, err := s.own.Gather()
	fail.NowIf(b, err)
	c := cpu{
		mariadb: s.mariadbBusy(b),
		service: find(b, string(metrics), `(?m)^process_cpu_seconds_total (\S+)`),
		redis:   s.redisBusy(b),
	}
	for _, family := range own {
		if family.GetName() == "process_cpu_seconds_total" {
			c.bare = family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return c
}

// redisBusy is the processor time of Redis.
func (s *benchService) redisBusy(b *testing.B) float64 {
	b.Helper()
	return s.info(b, "cpu", `(?m)^used_cpu_user:(\S+)`) + s.info(b, "cpu", `(?m)^used_cpu_sys:(\S+)`)
}

// mariadbBusy is the processor time of MariaDB; 0 without /proc.
func (s *benchService) mariadbBusy(b *testing.B) float64 {
	b.Helper()
	var file string
	fail.NowIf(b, s.pool.QueryRow("SELECT @@pid_file").Scan(&file))
	text, err := os.ReadFile(file)
	fail.NowIf(b, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	fail.NowIf(b, err)
	process, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := process.Stat()
	fail.NowIf(b, err)
	return stat.CPUTime()
}

// find returns the number in a text that a pattern matches.
func find(b *testing.B, text, pattern string) float64 {
	b.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		b.Fatalf("%s is not in\n%s", pattern, text)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	fail.NowIf(b, err)
	return n
}
