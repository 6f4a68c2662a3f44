package idworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var errDown = errors.New("registry is down")

// fakeRegistry is a registry in this process. It does what the scripts do, but by
// time.Now, so it works in a synctest bubble. TestRegistry runs the same cases on it, on
// Redis and on miniredis.
type fakeRegistry struct {
	cfg Config

	mu     sync.Mutex
	leases map[uint16]leaseRecord
	marks  map[uint16]int64
	tokens int
	down   bool
	renews int
}

type leaseRecord struct {
	token string
	until time.Time
}

func newFakeRegistry(cfg Config) *fakeRegistry {
	return &fakeRegistry{cfg: cfg.withDefaults(), leases: map[uint16]leaseRecord{}, marks: map[uint16]int64{}}
}

func (m *fakeRegistry) acquire(_ context.Context, r reservation) (grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return grant{}, errDown
	}
	for id := int(m.cfg.FirstMachine); id <= int(m.cfg.LastMachine); id++ {
		machine := uint16(id)
		if m.holder(machine) != "" {
			continue
		}
		if mark, ok := m.marks[machine]; ok && mark >= r.tick {
			continue
		}
		m.tokens++
		g := grant{machine: machine, token: fmt.Sprint(m.tokens)}
		m.leases[machine] = leaseRecord{g.token, time.Now().Add(m.cfg.TTL)}
		m.marks[machine] = max(m.marks[machine], r.ceiling)
		return g, nil
	}
	return grant{}, &busyError{wait: unit, reason: "all held or marked"}
}

func (m *fakeRegistry) renew(_ context.Context, g grant, r reservation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renews++
	switch {
	case m.down:
		return errDown
	case m.holder(g.machine) != g.token:
		return fmt.Errorf("%w: %d", errLost, g.machine)
	}
	m.leases[g.machine] = leaseRecord{g.token, time.Now().Add(m.cfg.TTL)}
	m.marks[g.machine] = max(m.marks[g.machine], r.ceiling)
	return nil
}

func (m *fakeRegistry) release(_ context.Context, g grant, last int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.down:
		return errDown
	case m.holder(g.machine) == g.token:
		delete(m.leases, g.machine)
		m.marks[g.machine] = last
	}
	return nil
}

// holder returns the token of a machine id's holder; "" if it is free.
func (m *fakeRegistry) holder(machine uint16) string {
	l, ok := m.leases[machine]
	if !ok || !time.Now().Before(l.until) {
		return ""
	}
	return l.token
}

func (m *fakeRegistry) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// remove deletes a lease without its holder's knowledge, but not the mark.
func (m *fakeRegistry) remove(machine uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, machine)
}

// takeOver gives a lease to another holder.
func (m *fakeRegistry) takeOver(machine uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[machine] = leaseRecord{"other", time.Now().Add(m.cfg.TTL)}
}

func (m *fakeRegistry) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for machine := range m.leases {
		if m.holder(machine) != "" {
			n++
		}
	}
	return n
}

func (m *fakeRegistry) renewals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renews
}
