package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/server"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/web"
)

// choice is a step that is possible.
type choice struct {
	Step, Action string
	Process      int
	Says         map[string]string
	Cost         map[string]int
}

// played is what the page reads of a schedule.
type played struct {
	Next          []choice
	Left          map[string]int
	Over, Reached bool
	Found         []explore.Violation
	Picture       string
}

func (f *fixture) plays(body string) (p played) {
	f.t.Helper()
	fail.NowIf(f.t, json.Unmarshal([]byte(f.want(http.StatusOK, "", "POST", "/api/schedule", body)), &p))
	return p
}

// A schedule that is sent whole says what can come next, what is left, and whether the aim is reached.
func TestSchedule(t *testing.T) {
	f := start(t)
	const budget = `"budget":{"preemptions":1,"expiries":1},"aim":"overlaps"`
	p := f.plays(`{"lock":"naive","buyers":2,"steps":"",` + budget + `}`)
	if len(p.Next) != 1 || p.Next[0].Step != "s1" || p.Next[0].Process != 1 || p.Next[0].Says["zh"] == "" || p.Reached {
		t.Errorf("before anything has happened: %+v", p)
	}
	p = f.plays(`{"lock":"naive","buyers":2,"steps":"s1-q1-r1",` + budget + `}`)
	i := slices.IndexFunc(p.Next, func(c choice) bool { return c.Step == "t" })
	if i < 0 || p.Next[i].Process != 0 || p.Next[i].Cost["preemptions"] != 1 {
		t.Errorf("with a holder: %+v", p.Next)
	}
	p = f.plays(`{"lock":"naive","buyers":2,"steps":"s1-q1-r1-t-s2-q2-r2",` + budget + `}`)
	if !p.Reached || p.Over || p.Left["preemptions"]+p.Left["expiries"] != 0 {
		t.Errorf("two holders: %+v", p)
	}
	for _, query := range []string{"", "?lang=zh&size=narrow&scale=steps"} {
		f.want(http.StatusOK, "<svg", "GET", p.Picture+".svg"+query, "")
	}
	f.want(http.StatusOK, "Buyer 2 gets the lock; buyer 1 believes that it has it, too", "GET", p.Picture+".steps", "")
	p = f.plays(`{"lock":"naive","buyers":2,"steps":"s1-q1-r1-t-s2-q2-r2","budget":{"preemptions":1},"aim":"overlaps"}`)
	if p.Reached || !p.Over || len(p.Next) > 0 {
		t.Errorf("beyond the budget: %+v", p)
	}
}

func TestScheduleThatIsRefused(t *testing.T) {
	f := start(t)
	ask := func(lock string, buyers int, steps, budget string) string {
		return fmt.Sprintf(`{"lock":%q,"buyers":%d,"steps":%q,"budget":%s}`, lock, buyers, steps, budget)
	}
	for body, part := range map[string]string{
		ask("naive", 2, "s1-w1", "{}"):                                      "step 2, w1, is not possible then",
		ask("naive", 2, "nonsense", "{}"):                                   "step 1",
		ask("naive", 2, strings.Repeat("s1-", explore.MaxSteps)+"s1", "{}"): "at most 200 steps",
		ask("naive", 0, "", "{}"):                                           "buyers; 1 to 4",
		ask("naive", 1000000, "", "{}"):                                     "buyers; 1 to 4",
		ask("naive~2~", 2, "s1", "{}"):                                      "is not LOCK~BUYERS~STEPS",
		ask("", 2, "s1", "{}"):                                              "is not LOCK~BUYERS~STEPS",
		ask("nonsense", 2, "s1", "{}"):                                      "nonsense",
		ask("zk-queue", 2, "s1", "{}"):                                      "cannot be explored",
		ask("naive", 2, "s1", `{"miracles":1}`):                             "other names",
		ask("naive", 2, "s1", `{"kills":-1}`):                               "-1 kills",
		ask("naive", 2, "s1", `{"kills":1000000}`):                          "0 to 200",
		`{"lock":"naive","buyers":2,"steps":"","budget":{},"unknown":true}`: "unknown",
		`{"lock":"naive","buyers":2,"steps":"","budget":{}} trailing`:       "follows",
		`[`: "",
		ask("naive", 2, "", `{"x":"`+strings.Repeat("y", 1<<17)+`"}`): "",
	} {
		f.want(http.StatusBadRequest, part, "POST", "/api/schedule", body)
	}
	good := ask("naive", 2, "s1", "{}")
	f.want(http.StatusBadRequest, "application/json", "POST", "/api/schedule", good, "Content-Type: text/plain")
	f.want(http.StatusForbidden, "forbidden", "POST", "/api/schedule", good, "Origin: http://example.com")
	f.want(http.StatusBadRequest, "no level", "POST", "/api/schedule/answer", `{"level":"nonsense"}`)
	f.want(http.StatusNotFound, "", "GET", "/api/schedules/naive~2~s1", "")
	f.want(http.StatusBadRequest, "", "GET", "/api/schedules/naive~9~s1.svg", "")
	f.want(http.StatusBadRequest, "", "GET", "/api/schedules/"+url.PathEscape("naive~2~s1-w1")+".svg", "")
	f.want(http.StatusBadRequest, "size", "GET", "/api/schedules/naive~2~s1-q1.svg?size=huge", "")
}

// The shortest schedule of each level is what a search finds, and where there is none, a search of everything finds
// none.
func TestLadder(t *testing.T) {
	testkit.Servers(t) // it needs none, but a minute
	for _, l := range server.Levels() {
		t.Run(l.ID, func(t *testing.T) {
			if l.Sampled {
				t.Skip("a search does not come that far: TestLadderBestKnown replays it")
			}
			c := explore.Config{Lock: l.Lock, Buyers: l.Buyers, Budget: l.Budget}
			r, err := explore.Run(t.Context(), c)
			fail.NowIf(t, err)
			if !r.Exhausted || r.Diverged > 0 {
				t.Errorf("the search is not complete: %+v", r)
			}
			found := ""
			if i := slices.IndexFunc(r.Found, func(f explore.Counterexample) bool { return f.Kind == l.Aim }); i >= 0 {
				_, found, _ = strings.Cut(r.Found[i].Schedule.String(), "~2~")
			}
			fail.Unequal(t, found, l.Shortest, "the shortest schedule")
		})
	}
}

// What is only the shortest that is known comes to the aim at its last step, within the budget.
func TestLadderBestKnown(t *testing.T) {
	for _, l := range server.Levels() {
		if !l.Sampled {
			continue
		}
		s, err := explore.ParseSchedule(fmt.Sprintf("%s~%d~%s", l.Lock, l.Buyers, l.Shortest))
		fail.NowIf(t, err)
		p, err := explore.Play(t.Context(), explore.Config{}, s)
		fail.NowIf(t, err)
		fail.Unequal(t, fmt.Sprint(p.Found), fmt.Sprint([]explore.Violation{{Kind: l.Aim, Step: len(s.Steps)}}), "%s: found", l.ID)
		fail.Unequal(t, p.Spent, l.Budget, "%s: spent", l.ID)
	}
}

// The page has words for each level, aim, action and adversity.
func TestSchedulerHasWords(t *testing.T) {
	messages, err := web.Messages()
	fail.NowIf(t, err)
	keys := []string{"lab.kind." + string(explore.ToldLate)}
	for _, l := range server.Levels() {
		keys = append(keys, "lab.scheduler.aim."+string(l.Aim), "lab.scheduler.after."+l.ID)
	}
	for _, a := range explore.Adversities() {
		keys = append(keys, "lab.scheduler.cost."+a.String())
	}
	for _, a := range "sqrwtzgkxej" {
		keys = append(keys, "lab.scheduler.do."+string(a))
	}
	for language, all := range messages {
		for _, key := range keys {
			if all[key] == "" {
				t.Errorf("%s: %s is missing", language, key)
			}
		}
	}
}
