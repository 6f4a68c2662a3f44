package testbed

import (
	"github.com/alicebob/miniredis/v2"
)

// AnyRedis starts a Redis server for this experiment only and returns its address: a
// redis-server, or, where none is installed, one inside this process that listens on a local
// port. It also says which one it is.
func (r *Run) AnyRedis() (addr, engine string) {
	if r.env.missing(Redis) == nil {
		addr = r.OwnRedis().Addr()
		return addr, r.Engine().Redis
	}
	mini := miniredis.NewMiniRedis()
	mini.ClockTTL(true) // otherwise keys expire only when a test advances the time
	r.must(mini.StartAddr("127.0.0.1:0"))
	r.Cleanup(mini.Close)
	return mini.Addr(), "an in-process Redis (miniredis)"
}
