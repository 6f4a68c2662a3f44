package main

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/none"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/uuid"
)

// keyPrefix goes before every key in Redis.
const keyPrefix = "seckill:"

// openLockers makes every mechanism whose servers are there. What some of them run
// in the background ends with closeAll.
func openLockers(client redis.UniversalClient, registry prometheus.Registerer) (_ *lock.Registry, closeAll func() error, err error) {
	observer, err := observeLocks(registry)
	if err != nil {
		return nil, nil, err
	}
	strong, err := reentrant.New(client, reentrant.Config{Prefix: keyPrefix, Observer: observer.of("reentrant")})
	if err != nil {
		return nil, nil, err
	}
	weak1, err1 := setnx.New(client, setnx.Config{Prefix: keyPrefix})
	weak2, err2 := naive.New(client, naive.Config{Prefix: keyPrefix})
	weak3, err3 := uuid.New(client, uuid.Config{Prefix: keyPrefix})
	sound, err4 := lua.New(client, lua.Config{Prefix: keyPrefix})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, errors.Join(err, strong.Close())
	}
	lockers, err := lock.NewRegistry(map[string]lock.Locker{
		"none": none.New(), "local": local.New(),
		"setnx": weak1, "naive": weak2, "uuid": weak3,
		"lua": sound, "reentrant": strong,
	})
	return lockers, strong.Close, err
}
