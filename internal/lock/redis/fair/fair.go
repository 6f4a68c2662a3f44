package fair

import (
	"embed"

	"seckill/internal/lock/redis/session"
)

//go:embed *.lua
var scripts embed.FS

// Config configures a [Locker]. The zero value takes every default.
type Config = session.Config

// Locker is the mechanism. It implements lock.Locker, lock.Inspector and lock.ForceReleaser and is safe for use by many
// goroutines; a process needs only one.
type Locker = session.Session

// New checks the configuration (lock.ErrInvalid) and starts the background goroutines, which Close stops. It does not
// talk to Redis yet.
func New(client session.Client, config Config) (*Locker, error) {
	return session.New(client, session.Protocol{
		Name:      "fair",
		ExtraKeys: []string{"places"},
		Scripts:   scripts, // a renewal is session/renew.lua
		Library:   "queue.lua",
		Modes:     []session.Mode{{Acquire: "acquire.lua", AllQueueInRedis: true, LocalHandover: true}},
	}, config)
}
