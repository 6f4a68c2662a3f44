package room_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/room"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Redis does not roll a script back. Every script is stopped at every one of its commands, in each of its first runs.
// After that no user has two tickets, no pass was used twice, and every pass has found a unit.
func TestScriptStopsAtAnyCommand(t *testing.T) {
	files, err := filepath.Glob("ledger/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		fail.NowIf(t, err)
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			for index := 1; index <= stops[filepath.Base(file)]; index++ {
				stop := &stopper{source: string(text), index: index}
				play(t, 6, voucher.Room{Rate: 20, DrawS: 60, PassS: 5}, 1, func(t *testing.T, w *world) { stop.story(t, w) })
				if t.Failed() || stop.command == "" {
					t.Fatalf("stopped at command %d, %q", index, stop.command)
				}
			}
		})
	}
}

// stops is how many commands of a script, counted over its runs, are stopped at: so that each of its ways is.
var stops = map[string]int{"restore.lua": 4, "ticket.lua": 8, "advance.lua": 12, "claim.lua": 26, "spend.lua": 24}

// stopper stops a script at a command, once.
type stopper struct {
	source string
	index  int

	mu      sync.Mutex
	inside  bool
	keys    []string
	strange []string
	seen    int
	command string // where it was stopped
}

// refuse is for [simulate.Redis.Refuse].
func (s *stopper) refuse(command string, args ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inside || strings.HasPrefix(command, "EVAL") {
		return ""
	}
	if len(args) > 0 && command != "TIME" && command != "HELLO" && !slices.Contains(s.keys, args[0]) {
		s.strange = append(s.strange, command+" "+args[0])
	}
	if s.seen++; s.command != "" || s.seen < s.index {
		return ""
	}
	s.command = command
	return "ERR stopped by the test"
}

func (*stopper) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*stopper) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook tells the stopper when its script runs.
func (s *stopper) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if len(args) < 4 || !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		s.mu.Lock()
		s.inside = args[1] == s.source || args[1] == redis.NewScript(s.source).Hash()
		s.keys = nil
		for _, key := range args[3 : 3+args[2].(int)] {
			s.keys = append(s.keys, key.(string))
		}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.inside = false
			s.mu.Unlock()
		}()
		return next(ctx, cmd)
	}
}

func (s *stopper) story(t *testing.T, w *world) {
	w.client.AddHook(s)
	w.redis.Refuse(s.refuse)
	tickets := w.enterAll(1, 9)
	for user, ticket := range tickets {
		fail.Unequal(t, w.enter(user).Ticket, ticket, "the ticket of user %d", user)
	}
	until(time.Minute)
	held := make(map[int64]string)
	for range 20 {
		until(500 * time.Millisecond)
		for user, ticket := range tickets {
			if a := w.look(user, ticket); a.State == room.HasPass && held[user] == "" {
				held[user] = a.Pass
				if user%3 == 0 { // fails at first, and is tried again
					v, _ := w.Voucher(t.Context(), voucherID)
					if w.at(user).Use(t.Context(), v, user, a.Pass, "failed") == nil {
						w.at(user).Done(t.Context(), v, a.Pass, "failed", false)
					}
				}
				err := w.order(user, a.Pass, "u")
				for range 3 {
					if err == nil || errors.Is(err, order.ErrPassOver) {
						break
					}
					err = w.order(user, a.Pass, "u")
				}
				if err != nil && (user%3 != 0 || !errors.Is(err, order.ErrPassOver)) { // what failed was not noted: it lapses
					t.Errorf("user %d has a live pass: %v", user, err)
				}
			}
		}
	}
	for range 3 { // what was counted twice or was not noted lapses, and goes to the next
		until(40 * time.Second)
		for user := range tickets {
			if w.orders[user] == 0 {
				ticket := w.enter(user).Ticket
				until(time.Second)
				if a := w.look(user, ticket); a.State == room.HasPass {
					fail.If(t, w.order(user, a.Pass, "v"), "user %d", user)
				}
			}
		}
	}
	w.locked(func() {
		fail.Unequal(t, w.stock, 0, "units that nobody got")
		fail.Unequal(t, len(w.orders), 6, "orders")
		for pass, n := range w.passes {
			fail.Unequal(t, n, 1, "orders with the pass %s", pass)
		}
	})
	if len(s.strange) > 0 { // a cluster would refuse it
		t.Errorf("keys that were not declared: %v", s.strange)
	}
}
