// Package redisscript runs Lua scripts on Redis and sends commands that go-redis never repeats on its own.
//
// By default go-redis sends a command that failed up to three more times and does not tell the caller. A caller that
// must know whether an earlier attempt may have been executed, or may still be executed, uses [Cmd] and repeats
// commands itself.
package redisscript

import (
	"context"
	"crypto/sha1" // EVALSHA names a script by this digest; it protects nothing
	"encoding/hex"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Script is the source of a Lua script and the digest by which EVALSHA names it.
type Script struct{ source, digest string }

// New returns the script with a source.
func New(source string) *Script {
	digest := sha1.Sum([]byte(source))
	return &Script{source: source, digest: hex.EncodeToString(digest[:])}
}

// Run sends the script by its digest. Where the server does not know the digest (NOSCRIPT, so it did nothing), Run
// sends the source. That is the only second round trip. The args are those of [Args], and send returns the error of the
// command that it sent.
func (s *Script) Run(ctx context.Context, args []any, send func(Cmd) error) error {
	err := send(s.ByDigest(ctx, args))
	if Missing(err) {
		err = send(s.BySource(ctx, args))
	}
	return err
}

// ByDigest returns the command EVALSHA. It fills in the first two of args and keeps args.
func (s *Script) ByDigest(ctx context.Context, args []any) Cmd {
	args[0], args[1] = "evalsha", s.digest
	return NewCmd(ctx, FirstKey, args...)
}

// BySource returns the command EVAL. It fills in the first two of args and keeps args, so that a command made of them
// before must have ended.
func (s *Script) BySource(ctx context.Context, args []any) Cmd {
	args[0], args[1] = "eval", s.source
	return NewCmd(ctx, FirstKey, args...)
}

// FirstKey is the index of KEYS[1] in the arguments of EVALSHA and EVAL. ARGV[1] follows the last key.
const FirstKey = 3

// Args returns the arguments of a script, with two free places for the verb and the script.
func Args(keys []string, argv ...any) []any {
	args := make([]any, FirstKey, FirstKey+len(keys)+len(argv))
	args[2] = len(keys)
	for _, k := range keys {
		args = append(args, k)
	}
	return append(args, argv...)
}

// Cmd is a command that go-redis sends once.
type Cmd struct{ *redis.Cmd }

// NewCmd returns a command. The argument at firstKey is a key: a cluster's client sends the command to the node that
// has it.
func NewCmd(ctx context.Context, firstKey int8, args ...any) Cmd {
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(firstKey)
	return Cmd{cmd}
}

// NoRetry implements [redis.Cmder].
func (Cmd) NoRetry() bool { return true }

// Missing reports whether a server refused to run a script because it does not have it, or has lost it.
func Missing(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// NotSent reports whether err proves that the command did not reach a server.
func NotSent(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	return errors.Is(err, redis.ErrPoolTimeout)
}

// refusals are the errors of a server that has not run a script, and never will for this call. The states of the second
// group do not change while a script runs, so a server looks at them ahead of a script's first write only.
var refusals = []string{
	"NOSCRIPT", "LOADING", "BUSY ", "MOVED", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "CROSSSLOT", "NOAUTH", "MASTERDOWN", "EXECABORT",
	"READONLY", "OOM", "MISCONF", "NOREPLICAS",
}

// Refused reports whether err proves that a server refused a script before the script wrote anything. An error that a
// running script ended with is no such proof.
func Refused(err error) bool {
	if !Answered(err) || err == nil {
		return false
	}
	for _, prefix := range refusals {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	// This client may not run scripts at all. A command that a script may not run is refused with a text that names the
	// script.
	return redis.HasErrorPrefix(err, "NOPERM") && !strings.Contains(err.Error(), "script")
}

// Answered reports whether the server replied, if only with an error.
func Answered(err error) bool {
	_, isReply := errors.AsType[redis.Error](err)
	return err == nil || isReply
}
