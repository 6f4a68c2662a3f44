package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// service is a fake API on a connection without latency.
type service struct {
	takes time.Duration
	// answer is the answer to the nth request of a user: "" is an order placed.
	answer func(user string, nth int) string

	mu    sync.Mutex
	asked map[string]int
	hosts []string
	now   int // pending requests
	most  int
}

func (s *service) client() *Client { return &Client{http: &http.Client{Transport: s}} }

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	user := req.Header.Get("X-User-ID")
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	nth := s.asked[user]
	s.asked[user]++
	s.hosts = append(s.hosts, req.URL.Host)
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if !sleep(req.Context(), s.takes) {
		return nil, req.Context().Err()
	}
	status, body := http.StatusCreated, fmt.Sprintf(`{"order_id":"7%s","status":"confirmed"}`, user)
	if s.answer != nil {
		if code := s.answer(user, nth); code != "" {
			status, body = http.StatusConflict, fmt.Sprintf(`{"code":%q}`, code)
		}
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

func targets(n int) []Target {
	all := make([]Target, n)
	for i := range all {
		all[i] = Target{Name: fmt.Sprintf("api-%d", i+1), URL: fmt.Sprintf("http://127.0.0.1:%d", i+1)}
	}
	return all
}

func TestEveryBuyerIsServedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{takes: 10 * time.Millisecond}
		began := time.Now()
		o, err := s.client().Send(t.Context(), targets(2), 5, Load{Buyers: 30, Concurrency: 10, First: 100, Seed: 1})
		fail.NowIf(t, err)
		if took := time.Since(began); took != 30*time.Millisecond || s.most != 10 {
			t.Errorf("took %v with up to %d at once", took, s.most)
		}
		if o.Requests != 30 || !maps.Equal(o.Answers, map[string]int{Created: 30}) || len(o.Placed()) != 30 {
			t.Errorf("outcome: %d requests, %v", o.Requests, o.Answers)
		}
		for user := 100; user < 130; user++ {
			if s.asked[fmt.Sprint(user)] != 1 {
				t.Errorf("user %d came %d times", user, s.asked[fmt.Sprint(user)])
			}
		}
		for _, a := range o.Placed() {
			if fmt.Sprintf("7%d", a.User) != fmt.Sprint(a.Order) || a.Took() != 10*time.Millisecond || a.Status != 201 {
				t.Errorf("answer: %+v", a)
			}
		}
		hosts := map[string]int{}
		for _, h := range s.hosts {
			hosts[h]++
		}
		if hosts["127.0.0.1:1"] != 15 || hosts["127.0.0.1:2"] != 15 {
			t.Errorf("not in turn: %v", hosts)
		}
	})
}

func TestRequestsOfABuyerGoOutTogetherToDifferentInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{takes: time.Millisecond}
		o, err := s.client().Send(t.Context(), targets(3), 5, Load{Buyers: 1, Requests: 3})
		if err != nil || o.Requests != 3 || s.most != 3 {
			t.Fatalf("%d requests, %d at once, %v", o.Requests, s.most, err)
		}
		slices.Sort(s.hosts)
		if len(slices.Compact(s.hosts)) != 3 {
			t.Errorf("hosts: %v", s.hosts)
		}
	})
}

func TestSeedDecidesWhoComesAndWhen(t *testing.T) {
	l := Load{Buyers: 50, First: 1, Spread: time.Second, Seed: 3}
	again, other := l, l
	other.Seed = 4
	if !slices.Equal(l.arrivals(), again.arrivals()) {
		t.Error("the same seed gives another crowd")
	}
	if slices.Equal(l.arrivals(), other.arrivals()) {
		t.Error("another seed gives the same crowd")
	}
	users := map[int64]bool{}
	last := time.Duration(0)
	for _, b := range l.arrivals() {
		users[b.user] = true
		if b.after < last || b.after >= time.Second {
			t.Errorf("comes after %v, behind one after %v", b.after, last)
		}
		last = b.after
	}
	if len(users) != 50 || !users[1] || !users[50] {
		t.Errorf("users: %v", users)
	}
}

// Arrivals are spread over a time, and end with that of the load, also those of buyers who wait for their turn.
func TestArrivalsAreSpreadAndEnd(t *testing.T) {
	for name, c := range map[string]struct {
		takes       time.Duration
		load        Load
		least, most int
	}{
		"half of the time": {0, Load{Buyers: 1000, Spread: 2 * time.Second, Duration: time.Second}, 400, 600},
		"ten at a time":    {100 * time.Millisecond, Load{Buyers: 1000, Concurrency: 10, Duration: 450 * time.Millisecond}, 50, 50},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{takes: c.takes}
			began := time.Now()
			o, err := s.client().Send(t.Context(), targets(1), 5, c.load)
			if err != nil || o.Requests < c.least || o.Requests > c.most {
				t.Errorf("%s: %d came, %v", name, o.Requests, err)
			}
			if took := time.Since(began); took > c.load.Duration+c.takes || took < c.load.Duration*9/10 {
				t.Errorf("%s: new buyers came for %v", name, took)
			}
		})
	}
}

func TestBusyBuyersComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answer: func(user string, nth int) string {
			switch {
			case user == "1" && nth < 2:
				return Busy
			case user == "2":
				return Busy
			case user == "3":
				return "sold_out"
			}
			return ""
		}}
		o, err := s.client().Send(t.Context(), targets(1), 5, Load{Buyers: 3, Retries: 3, RetryAfter: time.Second})
		fail.NowIf(t, err)
		if want := map[string]int{Created: 1, Busy: 6, "sold_out": 1}; !maps.Equal(o.Answers, want) {
			t.Errorf("answers: %v, want %v", o.Answers, want)
		}
		if p := o.Placed(); len(p) != 1 || p[0].Try != 2 {
			t.Errorf("placed: %+v", p)
		}
	})
}

func TestEndOfContextEndsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{takes: time.Minute}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		o, err := s.client().Send(ctx, targets(1), 5, Load{Buyers: 100, Concurrency: 5})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if o.Answers[Network] != 5 || o.Latency.Count != 0 {
			t.Errorf("answers: %v, latency of %d", o.Answers, o.Latency.Count)
		}
	})
}

func TestOnlyThisMachineIsPutUnderLoad(t *testing.T) {
	c := NewClient()
	defer c.Close()
	for _, url := range []string{"http://192.0.2.1:80", "http://[2001:db8::1]:80"} {
		if a := c.Buy(t.Context(), Target{URL: url}, 1, 1); !errors.Is(a.Err, ErrRemote) || a.Code != Network {
			t.Errorf("%s: %+v", url, a)
		}
	}
	redirecting := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/", http.StatusFound))
	defer redirecting.Close()
	if a := c.Buy(t.Context(), Target{URL: redirecting.URL}, 1, 1); a.Status != http.StatusFound {
		t.Errorf("a redirection was followed: %+v", a)
	}
}

func TestLatencyIsADistribution(t *testing.T) {
	var answers []Answer
	for i := range 1000 {
		answers = append(answers, Answer{Code: Created, Answered: int64(time.Duration(i+1) * time.Millisecond)})
	}
	answers = append(answers, Answer{Code: Network, Answered: int64(time.Hour)})
	l := newOutcome(answers, 2*time.Second).Latency
	if l.Count != 1000 || l.PerSecond != 500 {
		t.Errorf("count %d, %v a second", l.Count, l.PerSecond)
	}
	for name, v := range map[string][2]float64{"p50": {l.P50MS, 500}, "p90": {l.P90MS, 900}, "p99": {l.P99MS, 990}, "max": {l.MaxMS, 1000}} {
		if v[0] < v[1]*0.998 || v[0] > v[1]*1.002 {
			t.Errorf("%s is %v, want %v", name, v[0], v[1])
		}
	}
	sum, last := 0, 0.0
	for _, b := range l.Buckets {
		sum += b.Count
		if b.UpToMS <= last {
			t.Errorf("a bucket up to %v behind one up to %v", b.UpToMS, last)
		}
		last = b.UpToMS
	}
	if sum != 1000 || l.Buckets[0].Count == 0 || l.Buckets[len(l.Buckets)-1].Count == 0 || len(l.Buckets) != 31 {
		t.Errorf("%d in %d buckets: %v", sum, len(l.Buckets), l.Buckets)
	}
	if empty := newOutcome(nil, time.Second); empty.Latency.Buckets != nil || empty.Requests != 0 {
		t.Errorf("nothing comes to %+v", empty)
	}
}

func TestLoadsThatMakeNoSense(t *testing.T) {
	c := (&service{}).client()
	for _, l := range []Load{{}, {Buyers: -1}, {Buyers: 1, Requests: -1}, {Buyers: 1, Duration: -1}, {Buyers: 1, First: -1}} {
		if _, err := c.Send(t.Context(), targets(1), 1, l); err == nil {
			t.Errorf("%+v was accepted", l)
		}
	}
	if _, err := c.Send(t.Context(), nil, 1, Load{Buyers: 1}); err == nil {
		t.Error("a load for nobody was accepted")
	}
}
