package session

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"seckill/internal/redisscript"
)

// Protocol is what a mechanism does in Redis: scripts that follow the conventions in the package's documentation.
type Protocol struct {
	// Name is the name of the mechanism and the namespace of its keys.
	Name string
	// Scripts holds the Lua sources: release.lua, leave.lua, inspect.lua and break.lua, one to acquire for each mode,
	// and renew.lua unless this package's is used. NAME_free.lua comes before everything else of NAME.lua: it decides
	// the case in which nobody waits, and spares it the functions, which each call of a script makes anew.
	Scripts fs.FS
	// Library names a file of functions in Scripts. They come before each script, after those of common.lua.
	Library string
	// Modes are the ways to acquire: one, or one for writers and one for readers.
	Modes []Mode
	// ExtraKeys names the keys of a lock besides the lock itself and its queue.
	ExtraKeys []string
	// SetNX says that SET NX may take a free lock: a lock with a single lease is then a string, "<lease id> <owner>",
	// and the most frequent case needs no script.
	SetNX bool
}

// Mode is one way to acquire.
type Mode struct {
	// Name is part of the names of channels. It may be empty.
	Name string
	// Acquire names the script.
	Acquire string
	// AllQueueInRedis has every waiter join the lock's queue in Redis. Otherwise the waiters of a process share one
	// entry there: only the first of them asks.
	AllQueueInRedis bool
	// LocalHandover lets a release make the next waiter of the same process the holder, where the script agrees.
	LocalHandover bool
}

//go:embed common.lua renew.lua
var sources embed.FS

// scripts are the operations on a lock, except to acquire it.
type scripts struct {
	release, renew, leave, inspect, forceRelease *redisscript.Script
}

// mode is a Mode with its script.
type mode struct {
	Mode
	acquire *redisscript.Script
}

// build reads a protocol's scripts. On a cluster PUBLISH cannot tell who listens.
func (p Protocol) build(cluster bool) (scripts, []*mode, error) {
	b := builder{protocol: p, head: fmt.Sprintf("local cluster = %t\n", cluster)}
	b.head += b.read(sources, "common.lua")
	if p.Library != "" {
		b.head += b.read(p.Scripts, p.Library)
	}
	all := scripts{
		release: b.script("release.lua"), renew: b.renewal(), leave: b.script("leave.lua"),
		inspect: b.script("inspect.lua"), forceRelease: b.script("break.lua"),
	}
	modes := make([]*mode, len(p.Modes))
	for i, m := range p.Modes {
		modes[i] = &mode{Mode: m, acquire: b.script(m.Acquire)}
	}
	return all, modes, b.err
}

// builder puts scripts together and keeps the first error.
type builder struct {
	protocol Protocol
	head     string
	err      error
}

func (b *builder) read(from fs.FS, name string) string {
	source, err := fs.ReadFile(from, name)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("the scripts of %s: %w", b.protocol.Name, err)
	}
	return string(source)
}

func (b *builder) script(name string) *redisscript.Script {
	free := strings.TrimSuffix(name, ".lua") + "_free.lua"
	first := ""
	if _, err := fs.Stat(b.protocol.Scripts, free); err == nil {
		first = b.read(b.protocol.Scripts, free)
	}
	return redisscript.New(first + b.head + b.read(b.protocol.Scripts, name))
}

func (b *builder) renewal() *redisscript.Script {
	if _, err := fs.Stat(b.protocol.Scripts, "renew.lua"); errors.Is(err, fs.ErrNotExist) {
		return redisscript.New(b.head + b.read(sources, "renew.lua"))
	}
	return b.script("renew.lua")
}
