package testbed

// AnyRedis starts a Redis server for this experiment only and returns its address: a
// redis-server, or, where none is installed, the laboratory's own. It also says which one it
// is.
func (r *Run) AnyRedis() (addr, engine string) {
	addr = r.OwnRedis().Addr()
	return addr, r.Engine().Redis
}
