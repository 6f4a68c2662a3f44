package admission

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// Redis does not roll a script back. Every script is stopped at every one of its commands: by an error that comes once,
// and by a command that is forbidden until an operator allows it again. Whatever was told to buyers then holds, no unit
// is lost or sold twice, and every order has one dead letter at most.
func TestScriptStopsAtAnyCommand(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("ledger/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "replicate") || name == "trial.lua" || name == "pair.lua" {
			continue // they write what is there already, or keys of their own, or with one command and nothing of a voucher
		}
		text, err := os.ReadFile(file)
		fail.NowIf(t, err)
		source := string(text)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for index := 1; ; index++ {
				once := &stopper{name: name, source: source, index: index}
				stopScript(t, once)
				if once.command == "" { // the script has fewer commands
					if index == 1 {
						t.Error("the story does not run the script")
					}
					return
				}
				if !slices.Contains(reading, once.command) {
					stopScript(t, &stopper{name: name, source: source, index: index, forbid: true})
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// reading are commands that write nothing, and precede all that do.
var reading = []string{"TIME", "HGET", "HMGET", "HGETALL", "HLEN", "XLEN", "XRANGE", "XREVRANGE", "XPENDING"}

// stopper stops a script at a command.
type stopper struct {
	name, source string
	index        int
	forbid       bool // the command stays forbidden, also to other scripts, until lift

	mu      sync.Mutex
	inside  int             // how many calls of the script are under way
	keys    map[string]bool // that its calls declare
	strange []string        // keys that the script touches and that are not declared, or not of one slot
	seen    int             // how many commands of its first run were seen
	command string          // the one it was stopped at
	lifted  bool
}

// refuse is for [simulate.Redis.Refuse].
func (s *stopper) refuse(command string, args ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, arg := range args {
		if s.inside > 0 && strings.Contains(arg, "adm:{") && command != "PUBLISH" && !s.keys[arg] && !strings.HasPrefix(command, "EVAL") {
			s.strange = append(s.strange, command+" "+arg)
		}
	}
	switch {
	case command == "EVAL" || command == "EVALSHA":
		return ""
	case s.command != "" && s.forbid && !s.lifted && command == s.command:
		return "NOPERM ACL failure in script: the command is forbidden"
	case s.inside == 0 || s.command != "":
		return ""
	}
	if s.seen++; s.seen < s.index {
		return ""
	}
	s.command = command
	return "ERR stopped by the test"
}

// hook tells the stopper when its script runs.
func (s *stopper) hook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && (args[1] == s.source || args[1] == redis.NewScript(s.source).Hash()) {
			s.begin(args[3 : 3+args[2].(int)])
			defer s.end()
		}
		return next(ctx, cmd)
	}
}

func (s *stopper) begin(keys []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside++; s.inside == 1 {
		s.seen = 0
	}
	if s.keys == nil {
		s.keys = make(map[string]bool)
	}
	first, _ := keys[0].(string)
	tag := first[:strings.Index(first, "}")+1]
	for _, key := range keys {
		name, _ := key.(string)
		if s.keys[name] = true; !strings.HasPrefix(name, tag) {
			s.strange = append(s.strange, name)
		}
	}
}

func (s *stopper) lift() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lifted = true
}

func (s *stopper) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
}

// oneAtATime keeps another script's commands from running between those of a script, for which they would be taken.
type oneAtATime struct {
	process func(redis.ProcessHook) redis.ProcessHook
	turn    chan struct{} // has room for one
}

func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

func (h oneAtATime) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h oneAtATime) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	next = h.process(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isScript(cmd) {
			h.turn <- struct{}{}
			defer func() { <-h.turn }()
		}
		return next(ctx, cmd)
	}
}

func (h oneAtATime) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, isScript) {
			h.turn <- struct{}{}
			defer func() { <-h.turn }()
		}
		return next(ctx, cmds)
	}
}

// stopScript plays the story once.
func stopScript(t *testing.T, stop *stopper) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		s := &stopStory{fixture: newFixture(t, server.Options(), 9), T: t, stop: stop, answers: make(map[int64]error), ids: make(map[int64]int64)}
		s.store.refused = map[int64]bool{3: true, 8: true}
		s.config.AttemptTimeout, s.config.DecisionTimeout, s.config.OpenWait = 0, 0, 0 // the default
		s.split(2)
		s.client.(*redis.Client).AddHook(oneAtATime{stop.hook, make(chan struct{}, 1)})
		server.Refuse(stop.refuse)
		s.g = s.gate(nil)
		s.play()
		_ = s.g.Close()
		if len(stop.strange) > 0 { // a cluster would refuse it, or not notice
			t.Errorf("%s touches keys that its call does not declare, or not of one slot: %v", stop.name, stop.strange)
		}
		if t.Failed() {
			t.Logf("%s, stopped at command %d, %s, for ever %v", stop.name, stop.index, stop.command, stop.forbid)
		}
	})
}
