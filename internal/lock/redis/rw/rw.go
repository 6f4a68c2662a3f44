package rw

import (
	"embed"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
)

//go:embed *.lua
var scripts embed.FS

// Config configures a [Locker]. The zero value takes every default.
type Config = session.Config

// Locker is the mechanism. By itself it locks for writing. It is safe for use by many goroutines; a process needs only
// one.
type Locker struct{ *session.Session }

var (
	_ lock.Locker        = (*Locker)(nil)
	_ lock.Inspector     = (*Locker)(nil)
	_ lock.ForceReleaser = (*Locker)(nil)
)

// The modes of the protocol.
const (
	writer = iota
	reader
)

// New checks the configuration ([lock.ErrInvalid]) and starts the background goroutines, which Close stops. It does not
// talk to Redis yet.
func New(client session.Client, config Config) (*Locker, error) {
	s, err := session.New(client, session.Protocol{
		Name:      "rw",
		ExtraKeys: []string{"readers"},
		Scripts:   scripts,
		Library:   "state.lua",
		Modes: []session.Mode{
			writer: {Name: "w", Acquire: "write.lua", LocalHandover: true},
			reader: {Name: "r", Acquire: "read.lua", AllQueueInRedis: true},
		},
	}, config)
	if err != nil {
		return nil, err
	}
	return &Locker{s}, nil
}

// Writer returns the locker for writing: a writer holds the lock alone. An owner that reads is refused at once
// ([lock.ErrInvalid]), because it would wait for itself.
func (l *Locker) Writer() lock.Locker { return l.Mode(writer) }

// Reader returns the locker for reading: readers share the lock. The writer may read as well, and continues to read
// after it has released the lock for writing.
func (l *Locker) Reader() lock.Locker { return l.Mode(reader) }
