package voucher

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seckill/internal/lock"
)

// Policy is how a voucher is sold. Its JSON is part of the HTTP interface. The
// zero value is not usable; start from [DefaultPolicy].
type Policy struct {
	Flow      Flow      `json:"flow"`
	Lock      string    `json:"lock"`
	Scope     Scope     `json:"scope"`
	Placement Placement `json:"placement"`
	Stock     Stock     `json:"stock"`
	// Unique makes the database refuse a user's second order of the voucher.
	Unique bool `json:"unique"`
	// LockTTLMS is a fixed lease in ms; 0 is the mechanism's own way.
	LockTTLMS int64 `json:"lock_ttl_ms"`
	// LockWaitMS is how long to wait for the lock, in ms; 0 tries once.
	LockWaitMS int64        `json:"lock_wait_ms"`
	Faults     []lock.Fault `json:"faults,omitempty"`
	// FaultSeed makes faults with a probability strike the same users whenever the
	// seed is the same, see [Policy.FaultsFor]; 0 leaves each time to chance.
	FaultSeed int64 `json:"fault_seed,omitempty"`
	// Buckets splits the stock, under the flow admission, over so many parts that can be
	// on servers of their own; 0 is 1. A user belongs to one of them, and an empty one
	// draws from the others.
	Buckets int `json:"buckets,omitempty"`
}

// Flow is how an order finds its way into the database.
type Flow string

// The flows.
const (
	FlowLocked Flow = "locked" // a lock and a transaction for each order
	// FlowAdmission is decided in Redis and persisted behind it, in batches. There is
	// no lock in it, so [Policy.Validate] accepts the defaults of all other fields only.
	FlowAdmission Flow = "admission"
)

// Scope is what the lock's key names.
type Scope string

// The scopes.
const (
	ScopeUser    Scope = "user"    // user and voucher: guards one-per-user
	ScopeVoucher Scope = "voucher" // the voucher: guards the stock too
)

// Placement is where the lock stands in relation to the transaction.
type Placement string

// The placements.
const (
	AroundTx Placement = "around-tx" // commit, then release
	InsideTx Placement = "inside-tx" // release, then commit: too early
)

// Stock is how the stock is decremented.
type Stock string

// The strategies.
const (
	StockConditional Stock = "conditional" // stock = stock - 1 WHERE stock > 0
	StockUnguarded   Stock = "unguarded"   // read, write back less one
	StockVersion     Stock = "version"     // compare-and-set on a version
	StockFenced      Stock = "fenced"      // conditional, and refuses an old fencing token
)

// Bounds of a policy's fields.
const (
	MaxLockWait = time.Minute
	MaxFaults   = 16
	MaxBuckets  = 64
)

// DefaultPolicy is the safe way to sell with a lock around each order.
func DefaultPolicy() Policy {
	return Policy{
		Flow: FlowLocked, Lock: "reentrant", Scope: ScopeUser,
		Placement: AroundTx, Stock: StockConditional, Unique: true,
	}
}

// TTL is the fixed lease, 0 for the mechanism's own way.
func (p *Policy) TTL() time.Duration { return time.Duration(p.LockTTLMS) * time.Millisecond }

// Wait is how long to wait for the lock, 0 to try once.
func (p *Policy) Wait() time.Duration { return time.Duration(p.LockWaitMS) * time.Millisecond }

// Parts is how many buckets the stock is split into, at least 1.
func (p *Policy) Parts() int { return max(1, p.Buckets) }

// FaultsFor returns the faults that a user's orders meet. With a seed it is decided
// here which of those with a probability strike: by the seed, the user and the
// fault's place in the list alone, whatever the order of arrival and in whichever
// process.
func (p *Policy) FaultsFor(userID int64) []lock.Fault {
	if p.FaultSeed == 0 || len(p.Faults) == 0 {
		return p.Faults
	}
	draws := rand.New(rand.NewPCG(uint64(p.FaultSeed), uint64(userID)))
	struck := make([]lock.Fault, 0, len(p.Faults))
	for _, f := range p.Faults {
		draw := draws.Float64() // one for each, so that none depends on the others
		if f.Probability == 0 || draw < f.Probability {
			f.Probability = 0 // always
			struck = append(struck, f)
		}
	}
	return struck
}

// Validate says with [ErrInvalid] which field is unacceptable, and why.
func (p *Policy) Validate() error {
	if _, err := lock.Lookup(p.Lock); err != nil {
		return invalid("policy.lock: %v", err)
	}
	if err := cmp.Or(
		oneOf("flow", p.Flow, FlowLocked, FlowAdmission),
		oneOf("scope", p.Scope, ScopeUser, ScopeVoucher),
		oneOf("placement", p.Placement, AroundTx, InsideTx),
		oneOf("stock", p.Stock, StockConditional, StockUnguarded, StockVersion, StockFenced),
	); err != nil {
		return err
	}
	switch {
	case p.LockTTLMS < 0 || p.LockTTLMS > lock.MaxTTL.Milliseconds():
		return invalid("policy.lock_ttl_ms is %d; 0 to %d", p.LockTTLMS, lock.MaxTTL.Milliseconds())
	case p.LockWaitMS < 0 || p.LockWaitMS > MaxLockWait.Milliseconds():
		return invalid("policy.lock_wait_ms is %d; 0 to %d", p.LockWaitMS, MaxLockWait.Milliseconds())
	case p.Buckets < 0 || p.Buckets > MaxBuckets:
		return invalid("policy.buckets is %d; 0 to %d", p.Buckets, MaxBuckets)
	case p.Buckets > 0 && p.Flow != FlowAdmission:
		return invalid("policy.buckets is %d; under the flow %q there are none", p.Buckets, p.Flow)
	case len(p.Faults) > MaxFaults:
		return invalid("policy.faults has %d entries; at most %d", len(p.Faults), MaxFaults)
	}
	for i, f := range p.Faults {
		if err := f.Validate(); err != nil {
			return invalid("policy.faults[%d]: %v", i, err)
		}
	}
	if p.Flow == FlowAdmission {
		return p.validateAdmission()
	}
	return nil
}

// validateAdmission refuses what the flow would not heed: whoever asks for it expects
// something else.
func (p *Policy) validateAdmission() error {
	d := DefaultPolicy()
	for _, f := range []struct {
		name  string
		given any
		only  any
	}{
		{"lock", p.Lock, d.Lock},
		{"scope", p.Scope, d.Scope},
		{"placement", p.Placement, d.Placement},
		{"stock", p.Stock, d.Stock},
		{"unique", p.Unique, d.Unique},
		{"lock_ttl_ms", p.LockTTLMS, d.LockTTLMS},
		{"lock_wait_ms", p.LockWaitMS, d.LockWaitMS},
		{"fault_seed", p.FaultSeed, d.FaultSeed},
	} {
		if f.given != f.only {
			return invalid("policy.%s is %v; under the flow %q only %v", f.name, f.given, FlowAdmission, f.only)
		}
	}
	if len(p.Faults) > 0 {
		return invalid("policy.faults: under the flow %q there are none", FlowAdmission)
	}
	return nil
}

// Safe says why a valid policy is not safe, with [ErrLabOnly], or nil where it is.
// A safe policy holds its promises whichever process dies: the database itself
// refuses to oversell and to sell twice, the transaction commits before the lock
// goes, and the lock frees itself and nobody else's.
func (p *Policy) Safe() error {
	m, err := lock.Lookup(p.Lock)
	switch {
	case err != nil:
		return err
	case !m.Safe:
		return labOnly("lock %q", p.Lock)
	case p.Stock == StockUnguarded:
		return labOnly("stock %q", p.Stock)
	case p.Placement == InsideTx:
		return labOnly("placement %q", p.Placement)
	case !p.Unique:
		return labOnly("unique false")
	case len(p.Faults) > 0:
		return labOnly("faults")
	}
	return nil
}

func oneOf[T ~string](field string, got T, allowed ...T) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return invalid("policy.%s is %q; one of %q", field, got, allowed)
}

func labOnly(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrLabOnly}, args...)...)
}
