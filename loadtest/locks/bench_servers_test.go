package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func benchOn(t *testing.T, addr string) *bench {
	t.Helper()
	b, err := newBench(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

// Every subject runs briefly where all want one key, and some do in every other scenario: it works, and no key has two
// holders.
func TestEverySubject(t *testing.T) {
	b := benchOn(t, testkit.Redis(t).Addr())
	for _, s := range scenarios() {
		s.workers = min(s.workers, 8)
		for i, sub := range subjects() {
			if s.name != "one-key" && i%5 != 0 {
				continue
			}
			t.Run(s.name+"/"+sub.name, func(t *testing.T) {
				many := func(m *measurement) bool { return m.Grants >= 2*s.workers }
				m := measureUntil(t, many, func(window time.Duration) (*measurement, error) {
					return b.measure(t.Context(), s, sub, 20*ms, window, true)
				})
				if m.Violations > 0 {
					t.Errorf("two holders %d times", m.Violations)
				}
				// Of grants that were under way when the measurement began, not all commands are counted, and a command
				// that is under way when it ends may be executed later.
				edge := float64(s.workers) / float64(m.Grants)
				if m.Sent+edge < 1 || m.Executed+edge < m.Sent {
					t.Errorf("%.1f commands sent and %.1f executed per grant", m.Sent, m.Executed)
				}
			})
		}
	}
}

// delayed delays the first command of a client.
type delayed struct {
	first sync.Once
}

func (d *delayed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *delayed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *delayed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		d.first.Do(func() { time.Sleep(200 * ms) })
		return next(ctx, cmd)
	}
}

// If the server is asked late for its count, no command of the grants is missing nevertheless.
func TestLateCountLacksNothing(t *testing.T) {
	b := benchOn(t, testkit.Redis(t).Addr())
	b.stats.AddHook(&delayed{})
	s := scenario{name: "uncontended", workers: 4, keys: keysPerWorker, own: true}
	m, err := b.measure(t.Context(), s, peers()[0], 20*ms, 500*ms, true)
	if err != nil {
		t.Fatal(err)
	}
	// SET and EVALSHA are sent, GET and DEL are executed as well. Each worker may be in the midst of a pair at both
	// ends.
	const sent, executed = 2, 4
	edge := float64(2*executed*s.workers) / float64(m.Grants)
	if m.Sent+edge < sent || m.Executed+edge < executed {
		t.Errorf("%.2f commands sent and %.2f executed per grant of %d, want %d and %d", m.Sent, m.Executed, m.Grants, sent, executed)
	}
}

// measureUntil measures for 100 ms, then twice as long and so on until it has seen enough. On a busy machine the
// workers or the server may be kept from running for all of a short measurement.
func measureUntil(t *testing.T, enough func(*measurement) bool, measure func(window time.Duration) (*measurement, error)) *measurement {
	t.Helper()
	for window := 100 * ms; ; window *= 2 {
		m, err := measure(window)
		switch {
		case err == nil && enough(m):
			return m
		case err != nil && !errors.Is(err, errNoGrant), window > waitLimit:
			t.Fatalf("measured for %v: %+v, %v", window, m, err)
		}
	}
}

// broken is a lock that excludes nobody, or one that is never granted.
func broken(acquire func() (func() error, error)) subject {
	return subject{name: "broken", open: func(target) (*locker, error) {
		return &locker{
			acquire: func(context.Context, string) (func() error, error) { return acquire() },
			close:   func() error { return nil },
		}, nil
	}}
}

func TestWhatIsBrokenIsReported(t *testing.T) {
	b := benchOn(t, testkit.Redis(t).Addr())
	s := scenario{name: "one-key", workers: 4, keys: 1, hold: ms}
	refused, lost := errors.New("refused"), errors.New("lost")
	released := func() error { return nil }

	forEverybody := broken(func() (func() error, error) { return released, nil })
	measureUntil(t, func(m *measurement) bool { return m.Violations > 0 }, func(window time.Duration) (*measurement, error) {
		return b.measure(t.Context(), s, forEverybody, 0, window, false)
	})
	_, err := b.measure(t.Context(), s, broken(func() (func() error, error) { return nil, refused }), 0, 50*ms, false)
	if !errors.Is(err, refused) {
		t.Errorf("a lock for nobody: %v, want %v", err, refused)
	}
	_, err = b.measure(t.Context(), s, broken(func() (func() error, error) { return func() error { return lost }, nil }), 0, 50*ms, false)
	if !errors.Is(err, lost) {
		t.Errorf("a release that fails: %v, want %v", err, lost)
	}
	// Once in a while it is refused: the wait goes on, and counts as one.
	asked := 0 // by one worker
	sometimes := broken(func() (func() error, error) {
		if asked++; asked%10 == 0 {
			return nil, refused
		}
		return released, nil
	})
	gaveUp := func(m *measurement) bool { return m.GaveUp > 0 && m.Grants > 0 }
	measureUntil(t, gaveUp, func(window time.Duration) (*measurement, error) {
		return b.measure(t.Context(), scenario{workers: 1, keys: 1}, sometimes, 0, window, false)
	})
}

func TestServerLeavesNothing(t *testing.T) {
	testkit.Redis(t) // skips where there is no redis-server
	s, err := startServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); err != nil {
		t.Error(err)
	}
	s.stop()
	if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s is still there (%v)", s.dir, err)
	}
}

func TestCommandLine(t *testing.T) {
	testkit.Redis(t) // skips where there is no redis-server
	call := func(ctx context.Context, args ...string) (code int, out, progress string) {
		var o, p bytes.Buffer
		code = run(ctx, args, &o, &p)
		return code, o.String(), p.String()
	}
	short := []string{"-rounds", "2", "-only", "^alone/(lua|redislock)", "-duration"}

	code, out, progress := -1, "", ""
	var brief []string
	for duration := 300 * ms; code != 0 && duration < waitLimit; duration *= 2 { // see measureUntil
		brief = append(short, duration.String())
		code, out, progress = call(t.Context(), brief...)
	}
	if code != 0 || strings.Count(out, "| alone |") != 2 || strings.Count(progress, "round 2/2") != 2 {
		t.Errorf("a brief run: exit code %d, output:\n%s\nprogress:\n%s", code, out, progress)
	}
	code, out, _ = call(t.Context(), append(brief, "-json")...)
	var got struct {
		Rows []struct {
			Subject string
			Rounds  []measurement
			Counted *measurement
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("-json: exit code %d, %v:\n%s", code, err, out)
	}
	if len(got.Rows) != 2 || len(got.Rows[0].Rounds) != 2 || got.Rows[0].Rounds[0].Grants == 0 || got.Rows[0].Counted == nil {
		t.Errorf("-json: %+v", got)
	}
	if code, _, help := call(t.Context(), "-h"); code != 0 || !strings.Contains(help, "one-key-clients") || !strings.Contains(help, "reentrant") {
		t.Errorf("-h: exit code %d:\n%s", code, help)
	}
	for _, wrong := range [][]string{{"-only", "("}, {"-duration", "0"}, {"-rounds", "0"}, {"-nope"}, {"left over"}} {
		if code, _, said := call(t.Context(), wrong...); code != exitUsage || said == "" {
			t.Errorf("%q: exit code %d, %q", wrong, code, said)
		}
	}
	if code, _, _ := call(t.Context(), "-only", "no such subject"); code != exitFailed {
		t.Errorf("nothing to measure: exit code %d", code)
	}
	if code, _, _ := call(t.Context(), "-redis", "127.0.0.1:1"); code != exitFailed {
		t.Errorf("no server: exit code %d", code)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if code, _, _ := call(ctx, "-duration", "1m", "-only", "^one-key"); code != exitInterrupted {
		t.Errorf("interrupted: exit code %d", code)
	}
}

// The commands of a real client, including pipelines and pub/sub, are compared with what the server says that it
// executed.
func TestCounterAgreesWithTheServer(t *testing.T) {
	server := testkit.NewRedis(t)
	b := benchOn(t, server.Addr())
	var sent counter
	client := newClient(target{addr: server.Addr(), dial: sent.dial})
	defer client.Close()
	conn := client.Conn() // one, so that no second one connects meanwhile, which takes commands of its own
	defer conn.Close()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	count := func() window {
		t.Helper()
		executed, err := b.executed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return window{sent: sent.commands.Load(), executed: executed}
	}
	begin := count()
	_, err := conn.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range 10 {
			p.Set(t.Context(), "k", i, 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	middle := count()
	if s, e := middle.sent-begin.sent, middle.executed-begin.executed; s != 10 || e != 10 {
		t.Errorf("a pipeline of 10: %d sent and %d executed, want 10", s, e)
	}
	if err := conn.Eval(t.Context(), `redis.call("get", KEYS[1]) return redis.call("del", KEYS[1])`, []string{"k"}).Err(); err != nil {
		t.Fatal(err)
	}
	end := count()
	if s, e := end.sent-middle.sent, end.executed-middle.executed; s != 1 || e != 3 {
		t.Errorf("a script of two calls: %d sent and %d executed, want 1 and 3", s, e)
	}
	channel := client.Subscribe(context.WithoutCancel(t.Context()), "c")
	defer channel.Close()
	if _, err := channel.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := count(); after.sent == end.sent {
		t.Error("a subscription was not counted")
	}
}
