package idworker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/sonyflake"
)

// Why a generator does not mint.
var (
	errExpired     = errors.New("idworker: lease not renewed in time")
	errBeyondMark  = errors.New("idworker: clock is ahead of what was reserved")
	errSteppedBack = errors.New("idworker: clock stepped back")
	errEnded       = errors.New("idworker: machine id given back")
)

const (
	// lastSequence is the last of the 256 ids of a tick.
	lastSequence = 1<<sonyflake.BitLenSequence - 1
	// tolerated is by how many ticks a clock may step back and be waited for.
	tolerated = 10
)

// generator mints the ids of one leased machine id. It never sleeps.
type generator struct {
	grant grant
	ticks ticks
	// poked tells the slot that minting stopped for a reason that it can do
	// something about at once. It holds one message.
	poked chan struct{}

	mu       sync.Mutex
	ended    bool
	deadline time.Time // on the monotonic clock
	ceiling  int64     // the last tick to mint in
	// The last id: its tick and its sequence.
	last     int64
	sequence uint64
	// flake serves the ticks since it was made. See fresh.
	flake *sonyflake.Sonyflake
}

// newGenerator starts after the tick before now: the registry has seen to it that
// nobody minted in now's tick or later.
func newGenerator(g grant, c ticks, r reservation) *generator {
	return &generator{
		grant: g, ticks: c, poked: make(chan struct{}, 1),
		deadline: r.deadline, ceiling: r.ceiling,
		last: r.tick - 1, sequence: lastSequence,
	}
}

// mint returns an id, or how long to wait for the next tick, or why there will be
// none before the slot has acted.
func (g *generator) mint() (id int64, wait time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if err := g.check(now); err != nil {
		g.poke()
		return 0, 0, err
	}
	if g.ticks.at(now) > g.last {
		if err := g.fresh(); err != nil {
			return 0, 0, err
		}
	} else if g.sequence == lastSequence {
		return 0, g.ticks.until(g.last+1, now), nil
	}
	return g.next(now)
}

// check says why not to mint at all.
func (g *generator) check(now time.Time) error {
	switch tick := g.ticks.at(now); {
	case g.ended:
		return errEnded
	case !now.Before(g.deadline):
		return errExpired
	case tick > g.ceiling:
		return errBeyondMark
	case tick < g.last-tolerated:
		return errSteppedBack
	}
	return nil
}

// fresh makes a new sonyflake for a new tick. When the sequence of a tick is used
// up sonyflake sleeps, under its mutex, and after a clock stepped back it sleeps
// for as long as the step. A new one has nothing to wait for: its first id is
// always of the current tick. So with a new one for each new tick, and none asked
// for more than 256 ids of a tick, there is no sleep that a context could not end.
func (g *generator) fresh() error {
	flake, err := sonyflake.New(sonyflake.Settings{
		StartTime: g.ticks.start(),
		MachineID: func() (uint16, error) { return g.grant.machine, nil },
	})
	if err != nil {
		return fmt.Errorf("idworker: machine id %d: %w", g.grant.machine, err)
	}
	g.flake = flake
	return nil
}

// next takes an id from sonyflake and refuses one that is not after the last or
// beyond the mark: the clock may have moved since it was looked at.
func (g *generator) next(now time.Time) (id int64, wait time.Duration, err error) {
	raw, err := g.flake.NextID()
	if err != nil {
		return 0, 0, fmt.Errorf("idworker: machine id %d: %w", g.grant.machine, err)
	}
	tick, sequence := split(raw)
	switch {
	case tick < g.last || tick == g.last && sequence <= g.sequence:
		g.sequence = lastSequence // this tick has no more for us
		return 0, max(unit, g.ticks.until(g.last+1, now)), nil
	case tick > g.ceiling:
		g.poke()
		return 0, 0, errBeyondMark
	}
	g.last, g.sequence = tick, sequence
	return int64(raw), 0, nil
}

// split returns the tick and the sequence of an id.
func split(id uint64) (tick int64, sequence uint64) {
	return int64(id >> (sonyflake.BitLenSequence + sonyflake.BitLenMachineID)), sonyflake.SequenceNumber(id)
}

func (g *generator) poke() {
	select {
	case g.poked <- struct{}{}:
	default: // the slot has not read the one before
	}
}

// state says why the generator does not mint now; nil if it does.
func (g *generator) state() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check(time.Now())
}

// left is how long the lease can be relied on.
func (g *generator) left() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.deadline)
}

// extend notes that the registry has acknowledged a renewal.
func (g *generator) extend(r reservation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = r.deadline
	g.ceiling = max(g.ceiling, r.ceiling)
}

// end stops the minting for good and returns the last tick minted in. When it
// returns, no id is under way.
func (g *generator) end() (last int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	return g.last
}
