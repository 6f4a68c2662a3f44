package fenced

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
		Name:      "fenced",
		ExtraKeys: []string{"token"},
		Scripts:   scripts, // a renewal is session/renew.lua
		Library:   "token.lua",
		Modes:     []session.Mode{{Acquire: "acquire.lua", LocalHandover: true}},
	}, config)
}
