package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// scenario is a way in which workers use locks.
type scenario struct {
	name, says string
	workers    int
	keys       int // of each worker where own, else of all together
	own        bool
	hold       time.Duration
	think      time.Duration // between a release and the next acquisition
	separate   bool          // every worker has a client of its own, as 64 processes would
}

// keysPerWorker is more than one, so that no library profits from a single hot entry.
const keysPerWorker = 16

func scenarios() []scenario {
	return []scenario{
		{name: "alone", workers: 1, keys: keysPerWorker, own: true,
			says: "1 goroutine on keys of its own: the length of two round trips"},
		{name: "uncontended", workers: 64, keys: keysPerWorker, own: true,
			says: "64 goroutines, each on keys of its own: throughput"},
		{name: "many-keys", workers: 64, keys: 1000,
			says: "64 goroutines that pick one of 1,000 keys at random, and hold it for no time"},
		{name: "one-key", workers: 64, keys: 1, hold: time.Millisecond, think: 20 * time.Millisecond,
			says: "64 goroutines of one client want one key, hold it for 1 ms and think for 20 ms: every grant is a hand-over"},
		{name: "one-key-clients", workers: 64, keys: 1, hold: time.Millisecond, think: 20 * time.Millisecond, separate: true,
			says: "the same with 64 separate clients, as 64 processes would be"},
	}
}

// contended reports whether the scenario is about waiting and fairness.
func (s scenario) contended() bool { return s.keys == 1 }

// names are the keys of all workers.
func (s scenario) names(prefix string) []string {
	n := s.keys
	if s.own {
		n *= s.workers
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return names
}

// pick returns the index of the next key of a worker.
func (s scenario) pick(worker int, random *rand.Rand) int {
	key := random.IntN(s.keys)
	if s.own {
		key += worker * s.keys
	}
	return key
}
