package rw_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// scripts runs the scripts of the lock as a session does, in an order of the test's choice.
type scripts struct {
	*testing.T
	client *redis.Client
	keys   []string
}

func newScripts(t *testing.T) *scripts {
	t.Helper()
	s := &scripts{T: t, client: redis.NewClient(testkit.AnyRedis(t))}
	t.Cleanup(func() { _ = s.client.Close() })
	prefix := testkit.KeyPrefix(t)
	for _, part := range []string{"", "queue", "readers"} {
		s.keys = append(s.keys, redisio.Key(prefix, "rw", "seat", part))
	}
	return s
}

func (s *scripts) run(name string, args ...any) any {
	s.Helper()
	var source strings.Builder
	source.WriteString("local cluster = false\n")
	for _, file := range []string{"../session/common.lua", "state.lua", name + ".lua"} {
		text, err := os.ReadFile(file)
		if err != nil {
			s.Fatal(err)
		}
		source.Write(text)
	}
	reply, err := s.client.Eval(s.Context(), source.String(), s.keys, args...).Result()
	if err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	return reply
}

// party is a reader or a writer that may wait.
type party struct {
	*scripts
	acquire string // its script
	owner   string
	leaseID string
	entry   string
	ticket  string
}

func (s *scripts) reader(name string) *party { return s.party("read", "r", name) }
func (s *scripts) writer(name string) *party { return s.party("write", "w", name) }

func (s *scripts) party(acquire, mode, name string) *party {
	id := "lease:" + name
	return &party{s, acquire, name, id, s.channel(mode) + " " + id + " 60000 " + name, "0"}
}

// channel is that of the waiters of a mode, which are all in one process.
func (s *scripts) channel(mode string) string { return s.keys[0] + ":" + mode + "@test" }

// try asks for the lock as a waiter, for a minute, and reports whether it was granted.
func (p *party) try() bool {
	p.Helper()
	reply := p.run(p.acquire, p.owner, p.leaseID, 60_000, p.entry, p.ticket, 60_000)
	if refusal, ok := reply.([]any); ok {
		p.ticket, _ = refusal[2].(string)
		return false
	}
	return reply == int64(0)
}

func (p *party) release() {
	p.Helper()
	if reply := p.run("release", p.owner, p.leaseID, "", "", 0, 0, 60_000, ""); reply != int64(1) {
		p.Errorf("release of %s = %v, want 1", p.owner, reply)
	}
}

// A reader counts once in the readers' turn, whether it asks twice because a reply was lost, or
// leaves the queue although it has just been granted the lock. The turn goes on for the others.
func TestReaderCountsOnceInTurn(t *testing.T) {
	for name, again := range map[string]func(p *party){
		"asks twice": func(p *party) { p.try() },
		"leaves":     func(p *party) { p.run("leave", p.entry, 60_000) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripts(t)
			holder, waiter, first, second := s.writer("holder"), s.writer("waiter"), s.reader("first"), s.reader("second")
			listener := s.client.Subscribe(t.Context(), s.channel("r"), s.channel("w"))
			defer listener.Close()
			for range 2 { // both are confirmed
				fail.NowIf(t, fail.Of(listener.Receive(t.Context())))
			}
			if !holder.try() || first.try() || second.try() || waiter.try() {
				t.Fatal("want one holder and three who wait")
			}
			holder.release()
			// A busy machine must not end the turn.
			fail.NowIf(t, s.client.HSet(t.Context(), s.keys[0], "turn", time.Now().Add(time.Hour).UnixMilli()).Err())
			fail.NowIf(t, s.client.Persist(t.Context(), s.keys[0]).Err())
			if !first.try() {
				t.Fatal("the first reader was refused in its turn")
			}
			again(first)
			first.release()
			if waiter.try() {
				t.Error("the writer got the lock before the second reader")
			}
			if !second.try() {
				t.Error("the second reader was refused in its turn")
			}
			if over, err := s.client.HExists(t.Context(), s.keys[0], "turn").Result(); err != nil || over {
				t.Errorf("the turn goes on after the last reader has come: %t, %v", over, err)
			}
		})
	}
}

// An attempt that arrives twice, the second time after the holder has extended its lease, does
// not shorten it.
func TestLateAttemptDoesNotShortenLease(t *testing.T) {
	for _, mode := range []string{"read", "write"} {
		t.Run(mode, func(t *testing.T) {
			s := newScripts(t)
			p := s.party(mode, mode, "holder")
			const extended = time.Hour
			if !p.try() || s.run("renew", p.owner, p.leaseID, extended.Milliseconds()) != int64(1) {
				t.Fatal("the lock was not granted and extended")
			}
			if !p.try() {
				t.Error("the repeated attempt was refused")
			}
			state, _ := s.run("inspect").([]any)
			ms, _ := state[2].(int64)
			if left := time.Duration(ms) * time.Millisecond; left < extended/2 {
				t.Errorf("%v are left of a lease of %v", left, extended)
			}
		})
	}
}
