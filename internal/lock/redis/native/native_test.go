package native_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/native"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(t *testing.T, client plain.Client) *native.Locker {
	t.Helper()
	l, err := native.New(client, native.Config{})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// It uses the command that the server has, and after the first acquisition it no longer looks for one.
func TestUsesTheServersCommand(t *testing.T) {
	for name, c := range map[string]struct {
		unknown string
		want    []string // commands of two pairs
	}{
		"Valkey 9.0": {"DELEX", []string{"DELIFEQ", "SET", "DELIFEQ", "SET", "DELIFEQ"}},
		"Redis 8.4":  {"DELIFEQ", []string{"DELIFEQ", "DELEX", "SET", "DELEX", "SET", "DELEX"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := simulate.NewRedis(t)
			l := open(t, server.Client(t))
			var sent []string
			server.Refuse(func(command string, _ ...string) string {
				if slices.Contains([]string{"DELIFEQ", "DELEX", "SET"}, command) {
					sent = append(sent, command)
				}
				if command == c.unknown {
					return "ERR unknown command '" + command + "', with args beginning with: "
				}
				return ""
			})
			for range 2 {
				lease, err := l.Acquire(t.Context(), "seat", lock.Options{})
				fail.NowIf(t, err)
				fail.If(t, lease.Release(t.Context()))
			}
			server.Refuse(nil)
			if !slices.Equal(sent, c.want) {
				t.Errorf("sent %q, want %q", sent, c.want)
			}
			fail.Unequal(t, len(server.Mini().Keys()), 0, "keys that are left")
		})
	}
}

// A server that cannot compare and delete is refused with a word that says so, before it has the key. Once it can, it
// is used.
func TestRefusesServersWithoutTheCommand(t *testing.T) {
	server := simulate.NewRedis(t)
	l := open(t, server.Client(t))
	server.Refuse(func(command string, _ ...string) string {
		if command == "DELIFEQ" || command == "DELEX" {
			return "ERR unknown command '" + command + "'"
		}
		return ""
	})
	_, err := l.Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute})
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), "Valkey 9.0") || !strings.Contains(err.Error(), "Redis 8.4") {
		t.Errorf("Acquire = %v", err)
	}
	fail.Unequal(t, len(server.Mini().Keys()), 0, "keys")
	server.Refuse(nil)
	fail.If(t, fail.Of(l.Acquire(t.Context(), "seat", lock.Options{})))
}

// The lease of a holder that hangs ends for others too; what the holder does then is an error and changes nothing.
func TestLateHolderChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		l, other := open(t, server.Client(t)), open(t, server.Client(t))
		late, err := l.Acquire(t.Context(), "seat", lock.Options{TTL: time.Second})
		fail.NowIf(t, err)
		gone, err := l.Acquire(t.Context(), "gone", lock.Options{TTL: time.Second})
		fail.NowIf(t, err)
		simulate.Sleep(time.Second)
		next, err := other.Acquire(t.Context(), "seat", lock.Options{TTL: time.Minute})
		fail.NowIf(t, err)
		fail.Unless(t, late.Extend(t.Context(), time.Hour), lock.ErrExpired, "Extend")
		fail.Unless(t, late.Release(t.Context()), lock.ErrLost, "Release of what another holder has")
		fail.Unless(t, gone.Release(t.Context()), lock.ErrExpired, "Release of what nobody has")
		fail.Unequal(t, server.Mini().TTL(l.Name("seat")), time.Minute, "the next holder's lease")
		fail.If(t, context.Cause(next.Context()))
		fail.If(t, next.Release(t.Context()))
	})
}

// A renewal of a lock that was taken away does not write over what the next holder has.
func TestRenewsOnlyItsOwn(t *testing.T) {
	server := simulate.NewRedis(t)
	l := open(t, server.Client(t))
	lease, err := l.Acquire(t.Context(), "seat", lock.Options{TTL: time.Minute})
	fail.NowIf(t, err)
	fail.NowIf(t, server.Mini().Set(l.Name("seat"), "another's"))
	fail.Unless(t, lease.Extend(t.Context(), time.Hour), lock.ErrLost, "Extend")
	value, err := server.Mini().Get(l.Name("seat"))
	fail.NowIf(t, err)
	fail.Unequal(t, value, "another's", "the next holder's value")
}
