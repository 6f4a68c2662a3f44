package voucher_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// wantRoundTrip checks that a policy survives JSON, which has an optional member only if it is set.
func wantRoundTrip(t *testing.T, p voucher.Policy, member string, set bool) {
	t.Helper()
	data, err := json.Marshal(p)
	fail.NowIf(t, err)
	var got voucher.Policy
	if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, p) || strings.Contains(string(data), member) != set {
		t.Errorf("%s became %+v, %v", data, got, err)
	}
}

func TestFaultSeed(t *testing.T) {
	for _, seed := range []int64{0, 1, -1, math.MaxInt64} {
		p := voucher.DefaultPolicy()
		p.FaultSeed = seed
		p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 5, Probability: 0.5}}
		wantRoundTrip(t, p, "fault_seed", seed != 0)
		fail.If(t, p.Validate(), "seed %d", seed)
		fail.Unequal(t, reflect.DeepEqual(p.FaultsFor(17), p.Faults), (seed == 0), "seed %d: whom the fault hits is undecided", seed)
		if p.Faults = nil; len(p.FaultsFor(17)) != 0 {
			t.Errorf("seed %d: a fault of none", seed)
		}
	}
}

// The seed, the user and the fault's position in the list determine whom a fault hits.
func TestSeededFaultsHitTheSameUsers(t *testing.T) {
	const users = 2000
	policy := func(seed int64) *voucher.Policy {
		return &voucher.Policy{FaultSeed: seed, Faults: []lock.Fault{
			{Point: lock.CriticalSection, PauseMS: 1, Probability: 0.25},
			{Point: lock.BeforeCommit, PauseMS: 2},
			{Point: lock.BeforeRelease, PauseMS: 3, Probability: 1},
			{Point: lock.CriticalSection, PauseMS: 4, Probability: 0.25},
		}}
	}
	hits := func(p *voucher.Policy, user int64) [5]bool {
		var by [5]bool
		for _, f := range p.FaultsFor(user) {
			fail.NowUnequal(t, f.Probability, 0, "not decided: %+v", f)
			by[f.PauseMS] = true
		}
		return by
	}
	counts := map[string]int{}
	first, again, other := policy(5), policy(5), policy(6)
	for user := int64(users); user > 0; user-- { // in another order than below
		hits(first, user)
	}
	for user := int64(1); user <= users; user++ {
		got := hits(first, user)
		fail.NowUnequal(t, got, hits(again, user), "user %d, by two equal policies", user)
		if !got[2] || !got[3] {
			t.Fatalf("user %d is not hit by a fault without a probability: %v", user, got)
		}
		for what, is := range map[string]bool{
			"first": got[1], "second": got[4], "both": got[1] && got[4], "under both seeds": got[1] && hits(other, user)[1],
		} {
			if is {
				counts[what]++
			}
		}
	}
	for what, want := range map[string]int{"first": users / 4, "second": users / 4, "both": users / 16, "under both seeds": users / 16} {
		if n := counts[what]; n < want/2 || n > want*3/2 {
			t.Errorf("%d users of %d are hit by %s, want about %d", n, users, what, want)
		}
	}
	fail.Unequal(t, first.Faults[0].Probability, 0.25, "the policy itself was changed")
}

func TestBuckets(t *testing.T) {
	for _, tc := range []struct {
		flow         voucher.Flow
		given, parts int
		ok           bool
	}{
		{voucher.FlowAdmission, 0, 1, true},
		{voucher.FlowAdmission, 1, 1, true},
		{voucher.FlowAdmission, voucher.MaxBuckets, voucher.MaxBuckets, true},
		{voucher.FlowAdmission, voucher.MaxBuckets + 1, voucher.MaxBuckets + 1, false},
		{voucher.FlowAdmission, math.MaxInt, math.MaxInt, false},
		{voucher.FlowAdmission, -1, 1, false},
		{voucher.FlowAdmission, math.MinInt, 1, false},
		{voucher.FlowLocked, 0, 1, true},
		{voucher.FlowLocked, 1, 1, false}, // the flow would ignore it
	} {
		p := voucher.DefaultPolicy()
		p.Flow, p.Buckets = tc.flow, tc.given
		err := p.Validate()
		switch {
		case tc.ok && (err != nil || p.Safe() != nil):
			t.Errorf("%s with %d: Validate = %v, Safe = %v", tc.flow, tc.given, err, p.Safe())
		case !tc.ok && (!errors.Is(err, voucher.ErrInvalid) || !strings.Contains(err.Error(), "policy.buckets ")):
			t.Errorf("%s with %d: Validate = %v, want one that names them", tc.flow, tc.given, err)
		}
		fail.Unequal(t, p.BucketCount(), tc.parts, "policy.buckets %d: BucketCount", tc.given)
		wantRoundTrip(t, p, "buckets", tc.given != 0)
	}
}

// A field that the flow would ignore is refused by name.
func TestAdmissionAcceptsOnlyTheDefaults(t *testing.T) {
	for field, change := range map[string]func(*voucher.Policy){
		"":             func(*voucher.Policy) {},
		"lock":         func(p *voucher.Policy) { p.Lock = "fair" },
		"scope":        func(p *voucher.Policy) { p.Scope = voucher.ScopeVoucher },
		"placement":    func(p *voucher.Policy) { p.Placement = voucher.InsideTx },
		"stock":        func(p *voucher.Policy) { p.Stock = voucher.StockVersion },
		"unique":       func(p *voucher.Policy) { p.Unique = false },
		"lock_ttl_ms":  func(p *voucher.Policy) { p.LockTTLMS = 1 },
		"lock_wait_ms": func(p *voucher.Policy) { p.LockWaitMS = 1 },
		"fault_seed":   func(p *voucher.Policy) { p.FaultSeed = 1 },
		"faults":       func(p *voucher.Policy) { p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 1}} },
	} {
		t.Run(field, func(t *testing.T) {
			p := voucher.DefaultPolicy()
			p.Flow = voucher.FlowAdmission
			change(&p)
			err := p.Validate()
			if field == "" {
				if safe := p.Safe(); err != nil || safe != nil {
					t.Errorf("Validate = %v, Safe = %v", err, safe)
				}
				return
			}
			if !errors.Is(err, voucher.ErrInvalid) || !strings.Contains(err.Error(), "policy."+field+" ") && !strings.Contains(err.Error(), "policy."+field+":") {
				t.Errorf("Validate = %v, want one that names %s", err, field)
			}
		})
	}
}
