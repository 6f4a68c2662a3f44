package pressure

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// roomVisitor is somebody in a waiting room.
type roomVisitor struct {
	user   int
	ticket string
	number int64
	roomAnswer
}

// roomAnswer is what a visitor is told.
type roomAnswer struct {
	State, Ticket, Pass string
	Position            int64
	PassUntil           time.Time `json:"pass_until"`
	PollAfterMS         int64     `json:"poll_after_ms"`
}

// roomCrowd is the visitors of a room at two processes behind a balancer.
type roomCrowd struct {
	t        *testing.T
	at       string // the voucher's address
	client   *http.Client
	visitors []*roomVisitor
}

// TestSoakRoom sends a crowd (SECKILL_TEST_VISITORS) to a waiting room, a bot first, most of them before the opening.
// It measures the rate second by second, the draw against chance, the bot's share with the draw and without, what a
// poll costs beside a refusal, and what Redis needs.
func TestSoakRoom(t *testing.T) {
	testkit.Soak(t)
	n := harness.Number(t, "SECKILL_TEST_VISITORS", 20_000)
	stores := harness.NewStores(t)
	apis := []harness.Process{harness.Start(t, stores), harness.Start(t, stores)}
	harness.WaitReady(t, apis...)
	balancer := httptest.NewServer(harness.NewBalancer(t, apis[0].URL, apis[1].URL))
	defer balancer.Close()
	rate, before := max(50, n/30), n*4/5
	begin := time.Now().Add(20*time.Second + time.Duration(n)*time.Millisecond)
	c := &roomCrowd{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	c.at = c.create(balancer.URL, 2*n, begin, fmt.Sprintf(`"room":{"rate":%d,"draw_s":3600,"pass_s":60}`, rate))
	redis := harness.RedisAt(t, stores.Redis[0])
	memory := func() (bytes int64) {
		info := redis.InfoMap(t.Context(), "memory")
		fail.NowIf(t, info.Err())
		bytes, err := strconv.ParseInt(info.Val()["Memory"]["used_memory"], 10, 64)
		fail.NowIf(t, err)
		return bytes
	}
	empty := memory()

	c.enter(before)
	if left := time.Until(begin); left > 0 {
		t.Logf("%d tickets were given %v before the opening", before, left.Round(time.Second))
		c.costs(apis, balancer.URL)
		time.Sleep(max(0, time.Until(begin)))
	} else {
		t.Errorf("the tickets of the draw took %v too long", -left)
	}
	c.enter(n - before)
	t.Logf("Redis: %.1f bytes a visitor", float64(memory()-empty)/float64(n))
	c.wait(time.Now().Add(time.Duration(n/rate)*time.Second + 3*time.Minute))
	c.checkRate(rate)
	c.checkDraw(before, n/20)
}

// create puts a voucher on sale, and returns its address.
func (c *roomCrowd) create(url string, stock int, begin time.Time, policy string) string {
	c.t.Helper()
	status, body := harness.Call(c.t, http.MethodPost, url+"/api/v1/vouchers", nil, fmt.Sprintf(
		`{"title":"t","stock":%d,"begin_at":%q,"end_at":%q,"policy":{"flow":"admission",%s}}`,
		stock, begin.Format(time.RFC3339Nano), begin.Add(time.Hour).Format(time.RFC3339Nano), policy))
	fail.Unequal(c.t, status, http.StatusCreated, "%s", body)
	var v struct{ ID string }
	fail.NowIf(c.t, json.Unmarshal([]byte(body), &v))
	return url + "/api/v1/vouchers/" + v.ID
}

// call asks the room for a visitor.
func (c *roomCrowd) call(method string, v *roomVisitor) {
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.at+"/room", nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	req.Header.Set("X-User-ID", strconv.Itoa(v.user))
	if v.ticket != "" {
		req.Header.Set("Room-Ticket", v.ticket)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.t.Errorf("%s of %d: %v", method, v.user, err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	v.roomAnswer = roomAnswer{}
	if err != nil || resp.StatusCode >= 300 || json.Unmarshal(body, &v.roomAnswer) != nil {
		c.t.Errorf("%s of %d: %s %s %v", method, v.user, resp.Status, body, err)
	}
}

// each does something for visitors, 32 at a time.
func (c *roomCrowd) each(all []*roomVisitor, do func(*roomVisitor)) {
	var wg sync.WaitGroup
	queue := make(chan *roomVisitor)
	for range 32 {
		wg.Go(func() {
			for v := range queue {
				do(v)
			}
		})
	}
	for _, v := range all {
		queue <- v
	}
	close(queue)
	wg.Wait()
}

// enter has so many more visitors come.
func (c *roomCrowd) enter(n int) {
	had := len(c.visitors)
	for range n {
		c.visitors = append(c.visitors, &roomVisitor{user: len(c.visitors) + 1})
	}
	began := time.Now()
	c.each(c.visitors[had:], func(v *roomVisitor) {
		c.call(http.MethodPost, v)
		text, err := base64.RawURLEncoding.DecodeString(v.Ticket)
		if err != nil || len(text) < 16 {
			c.t.Errorf("the ticket of %d: %q, %v", v.user, v.Ticket, err)
			return
		}
		v.ticket, v.number = v.Ticket, int64(binary.BigEndian.Uint64(text[8:]))
	})
	c.t.Logf("%d tickets, %.0f a second", n, float64(n)/time.Since(began).Seconds())
}

// wait has everybody ask as often as the room says, until all have a pass.
func (c *roomCrowd) wait(until time.Time) {
	due := make(map[*roomVisitor]time.Time, len(c.visitors))
	for _, v := range c.visitors {
		due[v] = time.Now()
	}
	polls := 0
	for len(due) > 0 && time.Now().Before(until) && !c.t.Failed() {
		var now []*roomVisitor
		for v, at := range due {
			if time.Now().After(at) {
				now = append(now, v)
			}
		}
		c.each(now, func(v *roomVisitor) { c.call(http.MethodGet, v) })
		polls += len(now)
		for _, v := range now {
			due[v] = time.Now().Add(time.Duration(v.PollAfterMS) * time.Millisecond)
			if v.Pass != "" {
				delete(due, v)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	fail.Unequal(c.t, len(due), 0, "visitors without a pass")
	c.t.Logf("%.1f polls a visitor", float64(polls)/float64(len(c.visitors)))
}

// checkRate compares the passes of each second, by the room's clock, with the rate.
func (c *roomCrowd) checkRate(rate int) {
	perSecond := map[int64]int{}
	for _, v := range c.visitors {
		perSecond[v.PassUntil.Unix()]++
	}
	var counts []int
	for _, second := range slices.Sorted(maps.Keys(perSecond)) {
		counts = append(counts, perSecond[second])
	}
	c.t.Logf("rate %d, passes second by second: %v", rate, counts)
	fail.Unequal(c.t, slices.Max(counts) <= rate+rate/4+1, true, "the fullest second has %d passes", slices.Max(counts))
}

// checkDraw compares the positions of the draw with chance: of ten groups by arrival, each has a tenth of the first
// tenth. The bot's users came first.
func (c *roomCrowd) checkDraw(drawn, bot int) {
	const groups = 10
	var first [groups]int
	botFirst, botByArrival := 0, 0
	tenth := int64(drawn / groups)
	for _, v := range c.visitors {
		if v.number >= int64(drawn) {
			continue
		}
		if v.Position <= tenth {
			first[v.number*groups/int64(drawn)]++
		}
		if v.user <= bot && v.Position <= tenth {
			botFirst++
		}
		if v.user <= bot && v.number < tenth {
			botByArrival++
		}
	}
	expected, chi := float64(tenth)/groups, 0.0
	for _, n := range first {
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	c.t.Logf("χ² of ten groups by arrival among the first tenth: %.1f (9 degrees of freedom; 16.9 at 5 %%)", chi)
	c.t.Logf("a bot with %.1f %% of the tickets of the draw has %.1f %% of its first tenth; by arrival %.1f %%",
		100*float64(bot)/float64(drawn), 100*float64(botFirst)/float64(tenth), 100*float64(botByArrival)/float64(tenth))
	fail.Unequal(c.t, chi < 38, true, "χ² is %.1f: chance gives more than that once in 60,000 draws", chi)
}

// costs logs the CPU time of a process for a poll beside that for a refusal.
func (c *roomCrowd) costs(apis []harness.Process, url string) {
	const calls = 8000
	soldOut := c.create(url, 1, time.Now().Add(-time.Second), `"unique":true`)
	testkit.Until(c.t, "one is sold", func() bool {
		status, _ := harness.Call(c.t, http.MethodPost, soldOut+"/orders", http.Header{"X-User-Id": {"1"}}, "")
		return status < 300
	})
	cpu := func() (seconds float64) {
		for _, p := range apis {
			seconds += p.Metric(c.t, "process_cpu_seconds_total")
		}
		return seconds
	}
	each := func(what string, do func(*roomVisitor)) {
		some := make([]*roomVisitor, calls)
		for i := range some {
			some[i] = c.visitors[rand.IntN(len(c.visitors))]
		}
		before := cpu()
		c.each(some, do)
		c.t.Logf("%s: %.0f µs of CPU time", what, (cpu()-before)*1e6/calls)
	}
	for range 2 {
		each("a poll", func(v *roomVisitor) {
			other := *v
			c.call(http.MethodGet, &other)
		})
		each("a refusal", func(v *roomVisitor) {
			status, body := harness.Call(c.t, http.MethodPost, soldOut+"/orders", http.Header{"X-User-Id": {strconv.Itoa(v.user + 1)}}, "")
			fail.Unequal(c.t, status, http.StatusConflict, "%s", body)
		})
	}
}
