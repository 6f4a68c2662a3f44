package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/byhand"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/server"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// The tests of this package that open an environment do not run in parallel: closing one stops the process's shared
// servers.
func TestMain(m *testing.M) {
	lockclient.MainIfChild()
	testbed.MainIfRedis()
	testkit.Main(m)
}

// fixture is a server with two experiments that need nothing. They wait until they may go on.
type fixture struct {
	*httptest.Server
	t      *testing.T
	course string // its folder
	goOn   chan struct{}
}

// pair is an experiment that breaks and its partner, which holds.
func pair(goOn <-chan struct{}) lab.Set {
	one := func(id, partner string, expect finding.Verdict, n int) lab.Experiment {
		return lab.Experiment{
			ID: id, Group: "a failure", Title: "the title of " + id, Question: "does it?", Hypothesis: "the hypothesis", Arrangement: "the arrangement",
			Why: "the reason", Seen: "seen", Cure: "cure",
			Chinese: lab.Texts{Group: "一种失效", Question: "会吗？", Arrangement: "做法", Title: "标题", Hypothesis: "假设", Why: "缘由", Seen: "现象", Cure: "办法"},
			Expect:  expect, About: []finding.Kind{finding.Overlaps}, Partner: partner,
			Setup: lab.Setup{Policy: voucher.DefaultPolicy(), Buyers: 2},
			Parameters: []lab.Parameter{lab.CountParameter("buyers", i18n.Plain("buyers"), 1, 5,
				func(s lab.Setup) int { return s.Buyers }, func(s *lab.Setup, n int) { s.Buyers = n })},
			Scenario: func(t *lab.Trial, _ lab.Setup) {
				select {
				case <-goOn:
				case <-t.Context().Done():
					t.Fatalf("%w", context.Cause(t.Context()))
				}
				t.Found(finding.Overlaps, n)
				t.Witness(finding.Witness{Kind: finding.Overlaps, Summary: i18n.Plain("a < b & c"), Lanes: []finding.Lane{{
					Name: "buyer <1> & \"co\"", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Believes, To: 100}},
				}}})
			},
		}
	}
	return lab.Set{one("weak", "strong", finding.Breaks, 1), one("strong", "weak", finding.Holds, 0)}
}

func start(t *testing.T) *fixture {
	t.Helper()
	return startWith(t, testbed.Options{Embedded: true})
}

func startWith(t *testing.T, o testbed.Options) *fixture {
	t.Helper()
	goOn := make(chan struct{})
	return startOn(t, o, pair(goOn), goOn)
}

// startOn is a laboratory of some experiments, which may wait until goOn is closed.
func startOn(t *testing.T, o testbed.Options, set lab.Set, goOn chan struct{}) *fixture {
	t.Helper()
	f := &fixture{t: t, goOn: goOn, course: t.TempDir()}
	s, err := server.New(t.Context(), server.Config{
		Experiments: set, Options: o, Open: testbed.Open, Course: f.course,
		RefersTo: func(*lab.Experiment) *lab.Experiment { return nil },
		Report: func(w io.Writer, ran []server.Ran, _ i18n.Language) error {
			for _, r := range ran {
				fmt.Fprintf(w, "%s %s\n", r.Result.ID, r.Result.Observed)
			}
			return nil
		},
	})
	fail.NowIf(t, err)
	f.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
		fail.If(t, s.Close())
	})
	return f
}

// send sends a request with headers and returns status and body.
func (f *fixture) send(method, path, body string, headers ...string) (int, string) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.URL+path, strings.NewReader(body))
	fail.NowIf(f.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := http.DefaultClient.Do(req)
	fail.NowIf(f.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	fail.NowIf(f.t, err)
	return resp.StatusCode, string(data)
}

func (f *fixture) want(status int, part, method, path, body string, headers ...string) string {
	f.t.Helper()
	got, text := f.send(method, path, body, headers...)
	if got != status || !strings.Contains(text, part) {
		f.t.Errorf("%s %s %s %q: %d %s; want %d and %q", method, path, body, headers, got, text, status, part)
	}
	return text
}

// benchState is what an event says of the bench.
type benchState struct {
	byhand.State
	Found   map[string]int
	Picture int
	Failed  string
}

// stream reads events until one has a part, and returns the id of that.
type stream struct {
	t     *testing.T
	lines *bufio.Scanner
	close func() // which ends the lines
	id    string
	state benchState // of the last event about the bench
}

func (f *fixture) watch(last string) *stream {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.URL+"/api/events", nil)
	fail.NowIf(f.t, err)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	fail.NowIf(f.t, err)
	f.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		f.t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &stream{t: f.t, lines: lines, close: func() { resp.Body.Close() }}
}

// patience bounds the wait for an event. It only ends a test that waits for what never happens.
const patience = 2 * time.Minute

func (s *stream) until(part string) string {
	s.t.Helper()
	return s.untilBy(time.Now().Add(patience), part)
}

func (s *stream) untilBy(deadline time.Time, part string) string {
	s.t.Helper()
	defer time.AfterFunc(time.Until(deadline), s.close).Stop()
	for s.lines.Scan() {
		if id, ok := strings.CutPrefix(s.lines.Text(), "id: "); ok {
			s.id = id
		}
		if strings.Contains(s.lines.Text(), part) {
			return s.lines.Text()
		}
	}
	s.t.Fatalf("the stream ended without %q: %v; the last of the bench was %+v", part, s.lines.Err(), s.state)
	return ""
}

func TestRun(t *testing.T) {
	f := start(t)
	events := f.watch("")
	events.until(`"run":null,"runs":[]`)
	f.want(202, `{"run":1}`, "POST", "/api/runs", `{"experiment":"weak","predict":"breaks:overlaps"}`)
	events.until(`"run":{"n":1,"experiment":"weak"`)
	f.want(409, `"code":"busy"`, "POST", "/api/runs", `{"experiment":"strong"}`)
	f.want(404, `"code":"not_found"`, "GET", "/api/runs/1", "")
	f.want(404, `"code":"not_found"`, "GET", "/api/report", "")
	close(f.goOn)
	events.until(`"runs":[{"n":1,"experiment":"weak","changed":[],"observed":"breaks","skipped":false,"predicted":"breaks:overlaps","right":true}]`)

	text := f.want(200, `"prediction_right":true`, "GET", "/api/runs/1", "")
	fail.Without(t, text, `"as_written":true`, `"why":"the reason"`, `"why":"缘由"`, `"url":"/api/runs/1/0"`, `"begin_ms":0`, `"end_ms":100`, `"observed":"breaks"`)
	f.want(200, "weak breaks", "GET", "/api/report", "")

	f.want(202, `{"run":2}`, "POST", "/api/runs", `{"experiment":"weak","values":{"buyers":"3"}}`)
	events.until(`"changed":[{"name":"buyers","from":"2","to":"3"}],"observed":"breaks"`)
	text = f.want(200, `"as_written":false`, "GET", "/api/runs/2", "")
	if strings.Contains(text, "the reason") || strings.Contains(text, "缘由") {
		t.Errorf("the text of the experiment's own numbers is shown for others: %s", text)
	}
}

// A browser takes a picture only if it is well-formed.
func TestPicture(t *testing.T) {
	f := start(t)
	close(f.goOn)
	events := f.watch("")
	f.want(202, `{"run":1}`, "POST", "/api/runs", `{"experiment":"weak"}`)
	events.until(`"observed":"breaks"`)
	axis := func(path string) (last string) {
		t.Helper()
		d := xml.NewDecoder(strings.NewReader(f.want(200, "<svg", "GET", path, "")))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				return last
			}
			fail.NowIf(t, err, "%s", path)
			if text, ok := token.(xml.CharData); ok && strings.HasSuffix(string(bytes.TrimSpace(text)), "00") {
				last = string(text)
			}
		}
	}
	if own, stretched := axis("/api/runs/1/0.svg"), axis("/api/runs/1/0.svg?until=400"); own != "100" || stretched != "400" {
		t.Errorf("the axis ends at %q, stretched at %q", own, stretched)
	}
	f.want(200, "believes so, and holds it no more", "GET", "/api/runs/1/0.svg?lang=en", "")
	f.want(200, "自认为持有，其实已失去", "GET", "/api/runs/1/0.svg?until=400&lang=zh", "")
	f.want(400, "invalid_request", "GET", "/api/runs/1/0.svg?lang=fr", "")
	f.want(400, "invalid_request", "GET", "/api/live.svg?lang=fr", "")
	f.want(400, "invalid_request", "GET", "/api/runs/1/0.svg?scale=other", "")
	f.want(200, `class="now"`, "GET", "/api/runs/1/0.svg?scale=steps&size=narrow", "")
	fail.Without(t, f.want(200, `"steps":[{"at_ms":0,`, "GET", "/api/runs/1/0.steps?lang=zh", ""), `"play":"播放"`, `"does":"believes"`)
	f.want(400, "invalid_request", "GET", "/api/runs/1/0.steps?lang=fr", "")
	for _, until := range []string{"-1", "x", "NaN", "1e9"} {
		f.want(400, "invalid_request", "GET", "/api/runs/1/0.svg?until="+until, "")
		f.want(400, "invalid_request", "GET", "/api/runs/1/0.svg?from="+until, "")
	}
	for _, path := range []string{"/api/runs/1/1.svg", "/api/runs/1/1.steps", "/api/runs/1/-1.svg", "/api/runs/1/0", "/api/runs/2/0.svg", "/api/runs/x/0.svg", "/api/other"} {
		f.want(404, "not_found", "GET", path, "")
	}
	f.want(204, "", "GET", "/api/live.svg", "") // nothing runs
	f.want(204, "", "GET", "/api/live.steps", "")
}

// A run that was cancelled leaves nothing, and the next one can begin.
func TestCancel(t *testing.T) {
	f := start(t)
	events := f.watch("")
	f.want(409, `"code":"idle"`, "POST", "/api/cancel", `{}`)
	f.want(202, `{"run":1}`, "POST", "/api/runs", `{"experiment":"strong"}`)
	events.until(`"n":1`)
	f.want(202, ``, "POST", "/api/cancel", `{}`)
	events.until(`"run":null,"runs":[]`)
	close(f.goOn)
	f.want(202, `{"run":2}`, "POST", "/api/runs", `{"experiment":"strong"}`)
	events.until(`"n":2,"experiment":"strong","changed":[],"observed":"holds"`)
}

func TestInvalid(t *testing.T) {
	f := start(t)
	for _, body := range []string{
		`{"experiment":"other"}`, `{"experiment":"weak","predict":"perhaps"}`, `{"experiment":"weak","values":{"buyers":"9"}}`,
		`{"experiment":"weak","values":{"lease":"1s"}}`, `{"experiment":"weak","more":1}`, `[]`, `{`,
		`{"experiment":"` + strings.Repeat("x", 1<<17) + `"}`, `{"experiment":"weak"} {"experiment":"strong"}`, `{"experiment":"weak"}}`,
	} {
		f.want(400, "invalid_request", "POST", "/api/runs", body)
	}
	f.want(404, "not_found", "GET", "/api/cancel", "")
}

// A page of another site changes nothing and reads nothing.
func TestElsewhere(t *testing.T) {
	f := start(t)
	const (
		body   = `{"experiment":"weak"}`
		byHand = `{"lock":"naive","processes":2,"lease":2,"wait":0}`
	)
	host := strings.TrimPrefix(f.URL, "http://")
	for _, header := range []string{
		"Host: rebind.attacker.example", "Host: 192.0.2.1", "Host: localhost.attacker.example", "Origin: http://attacker.example",
		"Origin: null", "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
	} {
		f.want(403, "forbidden", "POST", "/api/runs", body, header)
		f.want(403, "forbidden", "POST", "/api/cancel", `{}`, header)
		f.want(403, "forbidden", "POST", "/api/bench", byHand, header)
		f.want(403, "forbidden", "POST", "/api/bench/act", `{"do":"a1"}`, header)
		f.want(403, "forbidden", "POST", "/api/bench/file", `{}`, header)
		if strings.HasPrefix(header, "Host") {
			for _, path := range []string{"/", "/api/experiments", "/api/events", "/api/report", "/api/bench.json", "/static/x/lab.js"} {
				f.want(403, "forbidden", "GET", path, "", header)
			}
		}
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		f.want(400, "invalid_request", "POST", "/api/runs", body, "Content-Type: "+kind)
		f.want(400, "invalid_request", "POST", "/api/bench", byHand, "Content-Type: "+kind)
		f.want(400, "invalid_request", "POST", "/api/bench/file", `{}`, "Content-Type: "+kind)
	}
	f.want(409, "idle", "POST", "/api/cancel", `{}`, "Origin: http://"+host, "Sec-Fetch-Site: same-origin") // our own page
	f.want(409, "idle", "POST", "/api/cancel", `{}`, "Host: localhost:8090")
	f.want(200, "", "GET", "/", "", "Host: [::1]:8090")
}

// A page that comes back gets what it has missed, or is told that there is a gap.
func TestStreams(t *testing.T) {
	f := start(t)
	close(f.goOn)
	first := f.watch("")
	first.until(`"runs":[]`)
	seen := first.id
	f.want(202, "", "POST", "/api/runs", `{"experiment":"weak"}`)
	first.until(`"observed":"breaks"`)
	missed := f.watch(seen).until("data: ")
	if !strings.Contains(missed, `"run":{"n":1`) {
		t.Errorf("after a break the page gets %s", missed)
	}
	for _, last := range []string{"another-1", "nonsense", first.id[:strings.Index(first.id, "-")] + "-999"} {
		s := f.watch(last)
		s.until("event: gap")
		s.until(`"observed":"breaks"`) // the newest state
	}
	refused := 0
	for range 40 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+"/api/events", nil)
		fail.NowIf(t, err)
		resp, err := http.DefaultClient.Do(req)
		fail.NowIf(t, err)
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused < 5 || refused > 20 { // 5 streams were open
		t.Errorf("%d of 40 more streams were refused", refused)
	}
}

// The list of experiments does not give their outcomes away.
func TestCatalogueGivesNothingAway(t *testing.T) {
	all, err := experiments.All()
	fail.NowIf(t, err)
	s, err := server.New(t.Context(), server.Config{Experiments: all, Options: testbed.Defaults(), Open: testbed.Open,
		RefersTo: func(*lab.Experiment) *lab.Experiment { return nil }})
	fail.NowIf(t, err)
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/api/experiments", nil))
	var got struct {
		Experiments []map[string]any
		Kinds       []struct{ Kind string }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || len(got.Experiments) != len(all) {
		t.Fatalf("%d experiments, %v", len(got.Experiments), err)
	}
	want := []string{"about", "command", "id", "lock", "missing", "parameters", "partner", "refers_to", "reports", "sources", "stretches", "texts"}
	if names := slices.Sorted(maps.Keys(got.Experiments[0])); !slices.Equal(names, want) {
		t.Errorf("an experiment has %q", names)
	}
	for _, e := range all {
		for _, text := range []string{e.Hypothesis, e.Why, e.Chinese.Hypothesis, e.Chinese.Why} {
			quoted, _ := json.Marshal(text)
			if bytes.Contains(rec.Body.Bytes(), quoted[1:len(quoted)-1]) {
				t.Errorf("the outcome of %s is given away: %q", e.ID, text)
			}
		}
	}
}
