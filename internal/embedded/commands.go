package embedded

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// What Valkey 9 and Redis 8.4 have and miniredis does not, as scripts, which it runs in one step.
const (
	// DELIFEQ key value replies 1 if the key had the value and was deleted, else 0.
	deleteIfEqual = `
local found = redis.pcall('GET', KEYS[1])
if type(found) == 'table' then return found end -- WRONGTYPE
if found ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`

	// SET key value IFEQ old replies OK if the key had the value old, else nil. With GET it replies what the key had.
	// ARGV: value, old, 1 for GET, and the other options.
	setIfEqual = `
local found = redis.pcall('GET', KEYS[1])
if type(found) == 'table' then return found end
if found == ARGV[2] then
  local done = redis.pcall('SET', KEYS[1], ARGV[1], unpack(ARGV, 4))
  if done.err or ARGV[3] == '0' then return done end
elseif ARGV[3] == '0' then
  return false
end
return found`
)

// complete adds these commands. DELEX, which Redis 8.4 has, miniredis has too.
func (r *Redis) complete() error {
	s := r.mini.Server()
	s.SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		if hook := r.hook.Load(); hook != nil && (*hook)(peer, command, args...) {
			return true
		}
		return command == "SET" && r.setIfEqual(peer, args) || command == "WAIT" && r.wait(peer, args)
	})
	return s.Register("DELIFEQ", func(peer *server.Peer, command string, args []string) {
		if len(args) != 2 {
			peer.WriteError("ERR wrong number of arguments for '" + strings.ToLower(command) + "' command")
			return
		}
		s.Dispatch(peer, []string{"EVAL", deleteIfEqual, "1", args[0], args[1]})
	})
}

// setIfEqual carries out a SET with IFEQ, and reports false if it has none.
func (r *Redis) setIfEqual(peer *server.Peer, args []string) bool {
	if len(args) < 4 {
		return false
	}
	rest, get := slices.Clone(args[2:]), "0"
	is := func(option string) func(string) bool {
		return func(s string) bool { return strings.EqualFold(s, option) }
	}
	at := slices.IndexFunc(rest, is("IFEQ"))
	if at < 0 {
		return false
	}
	if at+1 == len(rest) || slices.ContainsFunc(rest, is("NX")) || slices.ContainsFunc(rest, is("XX")) {
		peer.WriteError("ERR syntax error")
		return true
	}
	old := rest[at+1]
	rest = slices.Delete(rest, at, at+2)
	if at = slices.IndexFunc(rest, is("GET")); at >= 0 {
		rest, get = slices.Delete(rest, at, at+1), "1"
	}
	r.mini.Server().Dispatch(peer, append([]string{"EVAL", setIfEqual, "1", args[0], args[1], old, get}, rest...))
	return true
}

// SetReplicas has WAIT count n replicas, each of which has every write at once. There are none of their own.
func (r *Redis) SetReplicas(n int) { r.replicas.Store(int64(n)) }

// wait carries out WAIT. If there are fewer replicas than asked for it waits for its timeout, as a server does. An
// incorrect command is left to miniredis.
func (r *Redis) wait(peer *server.Peer, args []string) bool {
	if len(args) != 2 {
		return false
	}
	want, err := strconv.Atoi(args[0])
	timeout, err2 := strconv.Atoi(args[1])
	if err != nil || err2 != nil || want < 0 || timeout < 0 {
		return false
	}
	n := int(r.replicas.Load())
	if n < want {
		var over <-chan time.Time // 0: never
		if timeout > 0 {
			over = time.After(time.Duration(timeout) * time.Millisecond)
		}
		select {
		case <-over:
		case <-r.closing:
		}
	}
	peer.WriteInt(n)
	return true
}

// SetHook has hook called ahead of every command, also of those that a script calls; if it returns true the command is
// done. nil ends it. hook may run while the server is locked: it must not wait.
func (r *Redis) SetHook(hook server.Hook) {
	if hook == nil {
		r.hook.Store(nil)
		return
	}
	r.hook.Store(&hook)
}
