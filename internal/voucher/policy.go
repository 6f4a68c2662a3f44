package voucher

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seckill/internal/lock"
)

// Policy is how a voucher is sold. Its JSON is part of the HTTP interface. The zero value is not valid;
// start from [DefaultPolicy].
type Policy struct {
	Flow      Flow      `json:"flow"`
	Lock      string    `json:"lock"`
	Scope     Scope     `json:"scope"`
	Placement Placement `json:"placement"`
	Stock     Stock     `json:"stock"`
	// Unique makes the database refuse a user's second order of the voucher.
	Unique bool `json:"unique"`
	// LockTTLMS is a fixed lease in ms; 0 is the mechanism's default.
	LockTTLMS int64 `json:"lock_ttl_ms"`
	// LockWaitMS is how long to wait for the lock, in ms; 0 tries once.
	LockWaitMS int64        `json:"lock_wait_ms"`
	Faults     []lock.Fault `json:"faults,omitempty"`
	// FaultSeed makes a fault with a probability hit the same users in every run; see [Policy.FaultsFor].
	// 0 decides at random each time.
	FaultSeed int64 `json:"fault_seed,omitempty"`
	// Buckets is the number of buckets that the stock is split into under the admission flow; 0 is 1. The
	// buckets can be on different servers. A user belongs to one of them, and an empty bucket takes stock
	// from the others.
	Buckets int `json:"buckets,omitempty"`
	// Room is the waiting room; nil: none.
	Room *Room `json:"room,omitempty"`
}

// Flow is how an order reaches the database.
type Flow string

// The flows.
const (
	FlowLocked Flow = "locked" // a lock and a transaction for each order
	// FlowAdmission decides orders in Redis and persists them afterwards, in batches. It uses no lock, so
	// [Policy.Validate] accepts only the defaults of all other fields.
	FlowAdmission Flow = "admission"
)

// Scope is what the lock's key covers.
type Scope string

// The scopes.
const (
	ScopeUser    Scope = "user"    // one user and voucher: guards one order per user
	ScopeVoucher Scope = "voucher" // the whole voucher: guards the stock too
)

// Placement is the order of the lock and the transaction.
type Placement string

// The placements.
const (
	AroundTx Placement = "around-tx" // commit, then release
	InsideTx Placement = "inside-tx" // release, then commit: the release is too early
)

// Stock is how the stock is decremented.
type Stock string

// The strategies.
const (
	StockConditional Stock = "conditional" // stock = stock - 1 WHERE stock > 0
	StockUnguarded   Stock = "unguarded"   // read, then write back one less
	StockVersion     Stock = "version"     // compare-and-set on a version
	StockFenced      Stock = "fenced"      // conditional, and refuses an outdated fencing token
	StockRows        Stock = "rows"        // conditional, on one of several counters
	StockUnits       Stock = "units"       // a row for each unit: one that nobody has locked
	StockGrouped     Stock = "grouped"     // conditional, for the orders of several buyers at once
)

// needNoLock are the strategies with which the database alone sells every unit once, so that any buyer may be in any
// process.
var needNoLock = []Stock{StockConditional, StockRows, StockUnits, StockGrouped}

// Bounds of a policy's fields.
const (
	MaxLockWait = time.Minute
	MaxFaults   = 16
	MaxBuckets  = 64
)

// DefaultPolicy is a safe policy with a lock around each order.
func DefaultPolicy() Policy {
	return Policy{
		Flow: FlowLocked, Lock: "reentrant", Scope: ScopeUser,
		Placement: AroundTx, Stock: StockConditional, Unique: true,
	}
}

// TTL is the fixed lease; 0 is the mechanism's default.
func (p *Policy) TTL() time.Duration { return time.Duration(p.LockTTLMS) * time.Millisecond }

// Wait is how long to wait for the lock; 0 tries once.
func (p *Policy) Wait() time.Duration { return time.Duration(p.LockWaitMS) * time.Millisecond }

// BucketCount is the number of buckets that the stock is split into, at least 1.
func (p *Policy) BucketCount() int { return max(1, p.Buckets) }

// FaultsFor returns the faults for the orders of a user. With a seed, the faults with a probability are
// decided here, from the seed, the user and the fault's position in the list: the result does not depend on
// the order of arrival or on the process.
func (p *Policy) FaultsFor(userID int64) []lock.Fault {
	if p.FaultSeed == 0 || len(p.Faults) == 0 {
		return p.Faults
	}
	random := rand.New(rand.NewPCG(uint64(p.FaultSeed), uint64(userID)))
	hits := make([]lock.Fault, 0, len(p.Faults))
	for _, f := range p.Faults {
		x := random.Float64() // a number for each fault, so that they are independent
		if f.Probability == 0 || x < f.Probability {
			f.Probability = 0 // decided: always
			hits = append(hits, f)
		}
	}
	return hits
}

// Validate returns an [ErrInvalid] that names an invalid field and the reason.
func (p *Policy) Validate() error {
	if _, err := lock.Lookup(p.Lock); err != nil {
		return invalid("policy.lock", ": %v", err)
	}
	if err := cmp.Or(
		oneOf("flow", p.Flow, FlowLocked, FlowAdmission),
		oneOf("scope", p.Scope, ScopeUser, ScopeVoucher),
		oneOf("placement", p.Placement, AroundTx, InsideTx),
		oneOf("stock", p.Stock, StockConditional, StockUnguarded, StockVersion, StockFenced, StockRows, StockUnits, StockGrouped),
	); err != nil {
		return err
	}
	switch {
	case p.LockTTLMS < 0 || p.LockTTLMS > lock.MaxTTL.Milliseconds():
		return invalid("policy.lock_ttl_ms", " is %d; 0 to %d", p.LockTTLMS, lock.MaxTTL.Milliseconds())
	case p.LockWaitMS < 0 || p.LockWaitMS > MaxLockWait.Milliseconds():
		return invalid("policy.lock_wait_ms", " is %d; 0 to %d", p.LockWaitMS, MaxLockWait.Milliseconds())
	case p.Buckets < 0 || p.Buckets > MaxBuckets:
		return invalid("policy.buckets", " is %d; 0 to %d", p.Buckets, MaxBuckets)
	case p.Buckets > 0 && p.Flow != FlowAdmission:
		return invalid("policy.buckets", " is %d; under the flow %q there are none", p.Buckets, p.Flow)
	case len(p.Faults) > MaxFaults:
		return invalid("policy.faults", " has %d entries; at most %d", len(p.Faults), MaxFaults)
	}
	for i, f := range p.Faults {
		if err := f.Validate(); err != nil {
			return invalid(fmt.Sprintf("policy.faults[%d]", i), ": %v", err)
		}
	}
	switch {
	case p.Flow == FlowAdmission:
		if err := p.validateAdmission(); err != nil {
			return err
		}
	case p.Stock == StockGrouped:
		if err := p.validateGrouped(); err != nil {
			return err
		}
	}
	return p.Room.validate()
}

// validateGrouped refuses what one order cannot have in a transaction that it shares.
func (p *Policy) validateGrouped() error {
	switch {
	case p.Placement != AroundTx:
		return invalid("policy.placement", " is %q; with the stock %q only %q", p.Placement, StockGrouped, AroundTx)
	case !p.Unique:
		return invalid("policy.unique", " is false; with the stock %q the database allows one order for each user", StockGrouped)
	case len(p.Faults) > 0:
		return invalid("policy.faults", ": with the stock %q there are none, since they would hit other orders too", StockGrouped)
	}
	return nil
}

// validateAdmission refuses the fields that the admission flow would ignore.
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
			return invalid("policy."+f.name, " is %v; under the flow %q only %v", f.given, FlowAdmission, f.only)
		}
	}
	if len(p.Faults) > 0 {
		return invalid("policy.faults", ": under the flow %q there are none", FlowAdmission)
	}
	return nil
}

// Safe returns nil if a valid policy is safe; otherwise an [ErrLabOnly] with the reason. A safe policy never
// oversells, whichever process dies: the database itself refuses to oversell and to sell twice to a user,
// the transaction commits before the lock is released, and a holder releases only its own lock. Where the database
// does all of that by itself, there may be no lock at all.
func (p *Policy) Safe() error {
	m, err := lock.Lookup(p.Lock)
	switch {
	case err != nil:
		return err
	case !m.Safe && (p.Lock != "none" || !slices.Contains(needNoLock, p.Stock)):
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
	return invalid("policy."+field, " is %q; one of %q", got, allowed)
}

func labOnly(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrLabOnly}, args...)...)
}
