package service

import (
	"errors"
	"fmt"
)

// redisConfig is the configuration of Redis besides its addresses and its password.
type redisConfig struct {
	Cluster                            bool // although one address is given
	Username                           string
	SentinelUsername, SentinelPassword string
	TLS                                tlsConfig
	Pool                               int // connections of each pool; 0: defaultRedisPool
}

// defaultRedisPool is the number of connections of a pool. The client of locks has two pools, and so has that of
// orders.
const defaultRedisPool = 64

func redisSettings() []setting {
	return append([]setting{
		{name: "redis-cluster", arg: "", usage: "Redis is a cluster, although -redis-addrs has one address: a configuration endpoint, or one of its nodes",
			set: func(c *Config, v string) (err error) { c.Redis.Cluster, err = parseBool(v); return err }},
		{name: "redis-username", arg: "name", usage: "ACL user of Redis (default: the user default)",
			set: func(c *Config, v string) error { c.Redis.Username = v; return nil }},
		{name: "redis-sentinel-username", arg: "name", usage: "ACL user of the sentinels (default: the user default)",
			set: func(c *Config, v string) error { c.Redis.SentinelUsername = v; return nil }},
		{name: "redis-sentinel-password", arg: "password", usage: "password of the sentinels (default: none)", secret: true,
			set: func(c *Config, v string) error { c.Redis.SentinelPassword = v; return nil }},
		{name: "redis-pool", arg: "number", usage: fmt.Sprintf("connections of each pool to Redis, 1 to %d (default %d); there are four pools, and one for each lock node", maxPool, defaultRedisPool),
			set: func(c *Config, v string) (err error) { c.Redis.Pool, err = parseNumber(v, 1, maxPool); return err }},
	}, tlsSettings("redis", "Redis, its sentinels and the lock nodes", func(c *Config) *tlsConfig { return &c.Redis.TLS })...)
}

func (r redisConfig) validate(c *Config) error {
	switch {
	case r.Username != "" && c.RedisPassword == "":
		return errors.New("SECKILL_REDIS_PASSWORD is missing: SECKILL_REDIS_USERNAME is set, and a user logs in with a password")
	case r.SentinelUsername != "" && r.SentinelPassword == "":
		return errors.New("SECKILL_REDIS_SENTINEL_PASSWORD is missing: SECKILL_REDIS_SENTINEL_USERNAME is set, and a user logs in with a password")
	case r.SentinelPassword != "" && c.RedisMaster == "":
		return errors.New("SECKILL_REDIS_SENTINEL_PASSWORD is set, but SECKILL_REDIS_MASTER is not: then there are no sentinels")
	case r.Cluster && c.RedisMaster != "":
		return errors.New("SECKILL_REDIS_CLUSTER and SECKILL_REDIS_MASTER are both set: sentinels watch no cluster")
	case c.Embedded && (r.Cluster || r.Username != "" || r.TLS.On):
		return errors.New("SECKILL_REDIS_CLUSTER, SECKILL_REDIS_USERNAME or SECKILL_REDIS_TLS is set, but SECKILL_REDIS_ADDRS names no Redis")
	}
	return r.TLS.validate("SECKILL_REDIS_TLS")
}
