package idworker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/sonyflake"
)

// The reasons why a generator does not mint.
var (
	errExpired     = errors.New("idworker: lease not renewed in time")
	errBeyondMark  = errors.New("idworker: clock is ahead of the mark")
	errSteppedBack = errors.New("idworker: clock stepped back")
	errStopped     = errors.New("idworker: machine id released")
)

const (
	// lastSequence is the last of the 256 ids of a tick.
	lastSequence = 1<<sonyflake.BitLenSequence - 1
	// maxStepBack is the largest backward step of the clock, in ticks, that is waited out.
	maxStepBack = 10
)

// generator mints the ids of one leased machine id. It never sleeps.
type generator struct {
	grant grant
	ticks ticks
	// renewNow asks the slot to act before the next renewal is due: a renewal or another
	// machine id would let minting go on. Its buffer holds one message.
	renewNow chan struct{}

	mu       sync.Mutex
	stopped  bool
	deadline time.Time // on the monotonic clock
	ceiling  int64     // the mark: the last tick to mint in
	// The tick and the sequence of the last id.
	last     int64
	sequence uint64
	// flake mints the ids of the current tick. See newFlake.
	flake *sonyflake.Sonyflake
}

// newGenerator returns a generator for the ticks from r.tick on: the registry guarantees
// that nobody has minted in that tick or later.
func newGenerator(g grant, c ticks, r reservation) *generator {
	return &generator{
		grant: g, ticks: c, renewNow: make(chan struct{}, 1),
		deadline: r.deadline, ceiling: r.ceiling,
		last: r.tick - 1, sequence: lastSequence,
	}
}

// mint returns an id, or the time until the next tick, or an error that lasts until the
// slot has acted.
func (g *generator) mint() (id int64, wait time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if err := g.check(now); err != nil {
		g.requestRenewal()
		return 0, 0, err
	}
	if g.ticks.at(now) > g.last {
		if err := g.newFlake(); err != nil {
			return 0, 0, err
		}
	} else if g.sequence == lastSequence {
		return 0, g.ticks.until(g.last+1, now), nil
	}
	return g.next(now)
}

// check returns the reason not to mint, or nil.
func (g *generator) check(now time.Time) error {
	switch tick := g.ticks.at(now); {
	case g.stopped:
		return errStopped
	case !now.Before(g.deadline):
		return errExpired
	case tick > g.ceiling:
		return errBeyondMark
	case tick < g.last-maxStepBack:
		return errSteppedBack
	}
	return nil
}

// newFlake makes a new sonyflake for a new tick, so that sonyflake never sleeps. It would
// sleep under its mutex, where no context can end it: when the sequence of a tick is used
// up, and after a backward step of the clock for as long as the step. A new sonyflake
// mints its first id in the current tick, and none is asked for more than 256 ids.
func (g *generator) newFlake() error {
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

// next takes an id from sonyflake. It refuses one that is not after the last id, or that
// is beyond the mark: the clock may have changed since check.
func (g *generator) next(now time.Time) (id int64, wait time.Duration, err error) {
	raw, err := g.flake.NextID()
	if err != nil {
		return 0, 0, fmt.Errorf("idworker: machine id %d: %w", g.grant.machine, err)
	}
	tick, sequence := split(raw)
	switch {
	case tick < g.last || tick == g.last && sequence <= g.sequence:
		g.sequence = lastSequence // the rest of this tick cannot be used
		return 0, max(unit, g.ticks.until(g.last+1, now)), nil
	case tick > g.ceiling:
		g.requestRenewal()
		return 0, 0, errBeyondMark
	}
	g.last, g.sequence = tick, sequence
	return int64(raw), 0, nil
}

// split returns the tick and the sequence of an id.
func split(id uint64) (tick int64, sequence uint64) {
	return int64(id >> (sonyflake.BitLenSequence + sonyflake.BitLenMachineID)), sonyflake.SequenceNumber(id)
}

func (g *generator) requestRenewal() {
	select {
	case g.renewNow <- struct{}{}:
	default: // the slot has not read the previous request
	}
}

// ready returns the reason why the generator does not mint now, or nil.
func (g *generator) ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.check(time.Now())
}

// remaining is how long minting is still allowed.
func (g *generator) remaining() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.deadline)
}

// extend is called after the registry has acknowledged a renewal.
func (g *generator) extend(r reservation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.deadline = r.deadline
	g.ceiling = max(g.ceiling, r.ceiling)
}

// stop ends the minting for good and returns the last tick with an id. After it returns,
// no id is being minted.
func (g *generator) stop() (last int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	return g.last
}
