package simulate

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/embedded"
)

// TB is what this package needs of a test.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Redis is a Redis server in this process. It listens on no port.
type Redis struct {
	*embedded.Redis

	mu     sync.Mutex
	paused chan struct{} // closed when the server goes on; nil: it is not paused
}

// NewRedis starts a server that stops when t ends. Its WAIT counts one replica. In a bubble, call it from inside.
func NewRedis(t TB) *Redis {
	t.Helper()
	r, err := embedded.NewRedis()
	if err != nil {
		t.Fatalf("simulate: start a Redis in this process: %v", err)
	}
	r.SetReplicas(1)
	server := &Redis{Redis: r}
	r.Watch(server.arrive)
	t.Cleanup(func() { server.Resume(); r.Close() })
	return server
}

// arrive is called when a request arrives.
func (r *Redis) arrive([]byte) {
	r.mu.Lock()
	paused := r.paused
	r.mu.Unlock()
	if paused != nil {
		<-paused
	}
}

// Options returns the options of a client of this server that works in a bubble.
func (r *Redis) Options() *redis.Options { return ClientOptions(r.Dial) }

// ClientOptions returns options for a client that works in a bubble: it asks no resolver, starts nothing in the
// background (after PoolSize failed dials go-redis does), and repeats no command. Nobody waits for one of its
// connections: go-redis shares the timers of those who do among all bubbles, and synctest ends the program.
func ClientOptions(dial DialFunc) *redis.Options {
	return &redis.Options{
		Addr: "127.0.0.1:1", Dialer: dial, DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true,
		PoolSize:                 10_000,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Client returns a client with [Redis.Options] that is closed when t ends.
func (r *Redis) Client(t TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(r.Options())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// RestartEmpty stops the server and starts it without its data and scripts, as a server without persistence that died.
func (r *Redis) RestartEmpty() {
	r.Stop()
	r.Mini().FlushAll()
	r.Start()
}

// Pause has the server answer nothing for d, as CLIENT PAUSE does, or until Resume. Keys expire meanwhile.
func (r *Redis) Pause(d time.Duration) {
	r.Resume()
	paused := make(chan struct{})
	r.mu.Lock()
	r.paused = paused
	r.mu.Unlock()
	time.AfterFunc(d, func() { r.resume(paused) })
}

// Resume undoes Pause.
func (r *Redis) Resume() { r.resume(nil) }

// resume ends a pause, or the current one if that is nil.
func (r *Redis) resume(paused chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paused != nil && (paused == nil || paused == r.paused) {
		close(r.paused)
		r.paused = nil
	}
}

// Refuse has refuse called ahead of every command, also of those that a script calls. What it returns, if it is not
// empty, is the error with which the server answers in place of carrying the command out. nil ends it. refuse runs
// while the server is locked: it must not wait.
func (r *Redis) Refuse(refuse func(command string, args ...string) string) {
	if refuse == nil {
		r.SetHook(nil)
		return
	}
	r.SetHook(func(peer *server.Peer, command string, args ...string) bool {
		message := refuse(command, args...)
		if message != "" {
			peer.WriteError(message)
		}
		return message != ""
	})
}
