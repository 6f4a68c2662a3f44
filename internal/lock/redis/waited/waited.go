package waited

import (
	"cmp"

	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/session"
)

// Config configures a [Locker]. The zero value takes every default; that of Replicas is 1.
type Config = session.Config

// Locker is the mechanism. It implements lock.Locker, lock.Inspector and lock.ForceReleaser and is safe for use by many
// goroutines; a process needs only one.
type Locker = session.Session

// New checks the configuration (lock.ErrInvalid) and starts the background goroutines, which Close stops. It does not
// talk to Redis yet.
func New(client session.Client, config Config) (*Locker, error) {
	config.Replicas = cmp.Or(config.Replicas, 1)
	return session.New(client, reentrant.Protocol("waited"), config)
}
