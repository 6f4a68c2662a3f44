package flawed_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/flawed"
	"seckill/internal/lock"
	"seckill/internal/lock/none"
)

// Every program whose mistake is in the lock can be opened under some mechanism, and the others under none.
func TestOpen(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing is sent
	defer client.Close()
	config := flawed.Config{Redis: client, Nodes: []*redis.Client{client}, Base: none.New()}
	for _, name := range flawed.Names() {
		opened := 0
		for _, m := range lock.Catalogue() {
			switch l, err := flawed.Open(name, m.Name, config); {
			case err == nil && l != nil:
				opened++
			case !errors.Is(err, lock.ErrInvalid):
				t.Errorf("%s under %s: %v", name, m.Name, err)
			}
		}
		if (opened > 0) != name.InLock() {
			t.Errorf("%s can be opened under %d mechanisms; its mistake is in the lock: %v", name, opened, name.InLock())
		}
	}
}
