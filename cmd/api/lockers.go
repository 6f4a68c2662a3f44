package main

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/none"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
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
	lockers, err := pollingLockers(client)
	if err != nil {
		return nil, nil, err
	}
	strong, err := reentrant.New(client, reentrant.Config{Prefix: keyPrefix})
	if err != nil {
		return nil, nil, err
	}
	lockers["none"], lockers["local"], lockers["reentrant"] = none.New(), local.New(), strong
	for name, l := range lockers {
		lockers[name] = lock.Observe(l, observer.of(name))
	}
	all, err := lock.NewRegistry(lockers)
	if err != nil {
		return nil, nil, errors.Join(err, strong.Close())
	}
	return all, strong.Close, nil
}

// pollingLockers makes the mechanisms that need Redis and nothing in the background:
// who waits there asks again and again.
func pollingLockers(client redis.UniversalClient) (map[string]lock.Locker, error) {
	lockers := make(map[string]lock.Locker)
	for name, open := range map[string]func() (lock.Locker, error){
		"setnx":        func() (lock.Locker, error) { return setnx.New(client, setnx.Config{Prefix: keyPrefix}) },
		"setnx-expire": func() (lock.Locker, error) { return setnxexpire.New(client, setnxexpire.Config{Prefix: keyPrefix}) },
		"naive":        func() (lock.Locker, error) { return naive.New(client, naive.Config{Prefix: keyPrefix}) },
		"thread-id":    func() (lock.Locker, error) { return threadid.New(client, threadid.Config{Prefix: keyPrefix}) },
		"uuid":         func() (lock.Locker, error) { return uuid.New(client, uuid.Config{Prefix: keyPrefix}) },
		"uuid-wrong-key": func() (lock.Locker, error) {
			return uuid.New(client, uuid.Config{Prefix: keyPrefix, ReadsWrongKey: true})
		},
		"lua": func() (lock.Locker, error) { return lua.New(client, lua.Config{Prefix: keyPrefix}) },
	} {
		l, err := open()
		if err != nil {
			return nil, fmt.Errorf("opening lock %s: %w", name, err)
		}
		lockers[name] = l
	}
	return lockers, nil
}
