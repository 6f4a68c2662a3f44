package idworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var errDown = errors.New("registry is down")

// memory is a registry in this process: what the scripts do, on time.Now, so that
// it lives in a synctest bubble. TestRegistry holds the three to the same cases.
type memory struct {
	cfg Config

	mu     sync.Mutex
	leases map[uint16]memoryLease
	marks  map[uint16]int64
	tokens int
	down   bool
	renews int
}

type memoryLease struct {
	token string
	until time.Time
}

func newMemory(cfg Config) *memory {
	return &memory{cfg: cfg.withDefaults(), leases: map[uint16]memoryLease{}, marks: map[uint16]int64{}}
}

func (m *memory) acquire(_ context.Context, r reservation) (grant, error) {
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
		m.leases[machine] = memoryLease{g.token, time.Now().Add(m.cfg.TTL)}
		m.marks[machine] = max(m.marks[machine], r.ceiling)
		return g, nil
	}
	return grant{}, &busyError{wait: unit, reason: "all held or marked"}
}

func (m *memory) renew(_ context.Context, g grant, r reservation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renews++
	switch {
	case m.down:
		return errDown
	case m.holder(g.machine) != g.token:
		return fmt.Errorf("%w: %d", errLost, g.machine)
	}
	m.leases[g.machine] = memoryLease{g.token, time.Now().Add(m.cfg.TTL)}
	m.marks[g.machine] = max(m.marks[g.machine], r.ceiling)
	return nil
}

func (m *memory) release(_ context.Context, g grant, last int64) error {
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

// holder is the token of whoever holds a machine id; "" for nobody.
func (m *memory) holder(machine uint16) string {
	l, ok := m.leases[machine]
	if !ok || !time.Now().Before(l.until) {
		return ""
	}
	return l.token
}

func (m *memory) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

// remove deletes a lease behind its holder's back, and leaves the mark.
func (m *memory) remove(machine uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.leases, machine)
}

// steal gives a lease to somebody else.
func (m *memory) steal(machine uint16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[machine] = memoryLease{"thief", time.Now().Add(m.cfg.TTL)}
}

func (m *memory) held() int {
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

func (m *memory) renewals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renews
}
