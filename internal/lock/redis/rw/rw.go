package rw

import (
	_ "embed"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
)

var (
	//go:embed state.lua
	stateLua string
	//go:embed write.lua
	writeLua string
	//go:embed read.lua
	readLua string
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

// Locker is the mechanism: by itself it locks for writing. It is safe for use by
// many goroutines, and a process needs one. Close ends what it runs in the
// background.
type Locker struct{ *session.Session }

var (
	_ lock.Locker    = (*Locker)(nil)
	_ lock.Inspector = (*Locker)(nil)
	_ lock.Breaker   = (*Locker)(nil)
)

// The sides of the protocol.
const (
	writer = iota
	reader
)

// New checks the configuration ([lock.ErrInvalid]) and starts what works in the
// background. It does not talk to Redis yet.
func New(client session.Client, config Config) (*Locker, error) {
	s, err := session.New(client, session.Protocol{
		Name:    "rw",
		Parts:   []string{"readers"},
		Library: stateLua,
		Sides: []session.Side{
			writer: {Name: "w", Acquire: writeLua, HandsOver: true},
			reader: {Name: "r", Acquire: readLua, EachAsks: true},
		},
		Release: releaseLua, Renew: renewLua, Leave: leaveLua, Inspect: inspectLua, Break: breakLua,
	}, config)
	if err != nil {
		return nil, err
	}
	return &Locker{s}, nil
}

// Writer locks alone. An owner that reads is refused at once ([lock.ErrInvalid]):
// it would wait for itself.
func (l *Locker) Writer() lock.Locker { return l.Side(writer) }

// Reader locks together with other readers. The writer may read as well, and goes
// on reading when it has given the writing back.
func (l *Locker) Reader() lock.Locker { return l.Side(reader) }
