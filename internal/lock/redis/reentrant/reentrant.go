package reentrant

import (
	_ "embed"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
)

var (
	//go:embed pass.lua
	passLua string
	//go:embed acquire.lua
	acquireLua string
	//go:embed release.lua
	releaseLua string
	//go:embed renew.lua
	renewLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed inspect.lua
	inspectLua string
	//go:embed break.lua
	breakLua string
)

// Config says how a [Locker] works. The zero value takes every default.
type Config = session.Config

// Locker is the mechanism. It is safe for use by many goroutines, and a process
// needs one. Close ends what it runs in the background.
type Locker struct{ *session.Session }

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// New checks the configuration ([lock.ErrInvalid]) and starts what works in the
// background. It does not talk to Redis yet.
func New(client session.Client, config Config) (*Locker, error) {
	s, err := session.New(client, session.Protocol{
		Name:    "reentrant",
		Library: passLua,
		Sides:   []session.Side{{Acquire: acquireLua, HandsOver: true}},
		Release: releaseLua, Renew: renewLua, Leave: leaveLua, Inspect: inspectLua, Break: breakLua,
		Plain: true,
	}, config)
	if err != nil {
		return nil, err
	}
	return &Locker{s}, nil
}
