package redisscript_test

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/redisscript"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A script is sent by its digest, and by its source only where the server does not have it.
func TestScriptRunsByDigestOrSource(t *testing.T) {
	client := simulate.NewRedis(t).Client(t)
	script := redisscript.New("return {KEYS[1], ARGV[1], ARGV[2]}")
	run := func() (sent []any, reply any) {
		t.Helper()
		err := script.Run(t.Context(), redisscript.Args([]string{"k"}, "a", 7), func(cmd redisscript.Cmd) error {
			sent = append(sent, cmd.Args()[0])
			err := client.Process(t.Context(), cmd)
			reply = cmd.Val()
			return err
		})
		fail.NowIf(t, err)
		return sent, reply
	}
	for _, want := range [][]any{{"evalsha", "eval"}, {"evalsha"}} {
		sent, reply := run()
		if !reflect.DeepEqual(sent, want) || !reflect.DeepEqual(reply, []any{"k", "a", "7"}) {
			t.Errorf("sent %v, reply %v; want %v", sent, reply, want)
		}
	}
}

// go-redis does not repeat a command whose reply is lost.
func TestCommandIsSentOnce(t *testing.T) {
	options := simulate.NewRedis(t).Options()
	options.MaxRetries = 3
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	lost := &losesReplies{}
	client.AddHook(lost)
	cmd := redisscript.NewCmd(t.Context(), 1, "incr", "n")
	if err := client.Process(t.Context(), cmd); !errors.Is(err, io.EOF) || lost.sent != 1 || !cmd.NoRetry() {
		t.Errorf("error %v after %d commands, want EOF after one", err, lost.sent)
	}
}

type losesReplies struct{ sent int }

func (*losesReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *losesReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "incr" { // the client also introduces itself
			l.sent++
		}
		_ = next(ctx, cmd)
		cmd.SetErr(io.EOF)
		return io.EOF
	}
}

func (*losesReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func TestErrorsAreClassified(t *testing.T) {
	for name, tc := range map[string]struct {
		err                        error
		notSent, answered, missing bool
	}{
		"no error":     {err: nil, answered: true},
		"nil reply":    {err: redis.Nil, answered: true},
		"dial":         {err: &net.OpError{Op: "dial", Err: io.EOF}, notSent: true},
		"read":         {err: &net.OpError{Op: "read", Err: io.EOF}},
		"no free conn": {err: redis.ErrPoolTimeout, notSent: true},
		"no script":    {err: reply("NOSCRIPT No matching script"), answered: true, missing: true},
		"loading":      {err: reply("LOADING"), answered: true},
	} {
		got := [3]bool{redisscript.NotSent(tc.err), redisscript.Answered(tc.err), redisscript.Missing(tc.err)}
		if want := [3]bool{tc.notSent, tc.answered, tc.missing}; got != want {
			t.Errorf("%s: not sent, answered, missing are %v, want %v", name, got, want)
		}
	}
}

// An error out of a running script proves nothing: only what a server says ahead of a script's first write does.
func TestRefused(t *testing.T) {
	for message, want := range map[string]bool{
		"NOSCRIPT No matching script":                                            true,
		"LOADING Redis is loading the dataset in memory":                         true,
		"BUSY Redis is busy running a script":                                    true,
		"MOVED 1 127.0.0.1:1":                                                    true,
		"READONLY You can't write against a read only replica. script: a, on @b": true,
		"OOM command not allowed when used memory > 'maxmemory'. script: a":      true,
		"NOPERM this user has no permissions to run the 'evalsha' command":       true,
		"NOPERM ACL failure in script: no permissions to run the 'xadd' command": false,
		"BUSYGROUP Consumer Group name already exists":                           false,
		"WRONGTYPE Operation against a key script: a, on @user_script:1.":        false,
		"ERR The user executing the script can't run this command or subcommand": false,
		"ERR The stream has exhausted the last possible ID":                      false,
	} {
		fail.Unequal(t, redisscript.Refused(reply(message)), want, "%s", message)
	}
	if redisscript.Refused(nil) || redisscript.Refused(io.EOF) || redisscript.Refused(redis.Nil) {
		t.Error("no error, a lost connection, or a reply is taken for a refusal")
	}
}

// reply is an error that a server replied with.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}
