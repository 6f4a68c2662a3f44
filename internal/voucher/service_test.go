package voucher_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// memoryStore is a voucher store in memory; it is also the source of ids and lockers.
type memoryStore struct {
	voucher.Store
	vouchers map[int64]*voucher.Voucher
	// before runs before a voucher is stored, after runs after that. Their error is returned to the caller.
	before, after func(v *voucher.Voucher) error
	// flush is the error of DurableVoucher, for a voucher that Voucher finds.
	flush error
}

func (s *memoryStore) CreateVoucher(_ context.Context, v *voucher.Voucher) error {
	if s.before != nil {
		if err := s.before(v); err != nil {
			return err
		}
	}
	s.put(*v)
	if s.after != nil {
		return s.after(v)
	}
	return nil
}

func (s *memoryStore) put(v voucher.Voucher) {
	if s.vouchers == nil {
		s.vouchers = map[int64]*voucher.Voucher{}
	}
	s.vouchers[v.ID] = &v
}

func (s *memoryStore) Voucher(_ context.Context, id int64) (*voucher.Voucher, error) {
	if v := s.vouchers[id]; v != nil {
		return v, nil
	}
	return nil, voucher.ErrNotFound
}

func (s *memoryStore) DurableVoucher(ctx context.Context, id int64) (*voucher.Voucher, error) {
	v, err := s.Voucher(ctx, id)
	if err == nil && s.flush != nil {
		return nil, s.flush
	}
	return v, err
}

func (s *memoryStore) NextID(context.Context) (int64, error) { return 7, nil }

func (s *memoryStore) Locker(name string) (lock.Locker, error) {
	if name == "red" {
		return nil, lock.ErrNotConfigured
	}
	return nil, nil
}

func newService(s *memoryStore) *voucher.Service {
	return &voucher.Service{Store: s, IDs: s, Lockers: s, Now: func() time.Time { return begin }}
}

var errStore = errors.New("store")

func TestCreateSetsItsOwnFields(t *testing.T) {
	v := validVoucher()
	v.Stock, v.Version, v.CreatedAt = 5, 9, begin.Add(time.Hour)
	v.BeginAt = begin.Add(1500 * time.Nanosecond).In(time.FixedZone("UTC+8", 8*3600))
	s := &memoryStore{}
	got, err := newService(s).Create(t.Context(), v)
	fail.NowIf(t, err)
	if got.ID != 7 || got.Stock != v.InitialStock || got.Version != 0 || got.CreatedAt != begin || got.BeginAt != begin.Add(time.Microsecond) {
		t.Errorf("created %+v", got)
	}
	fail.Unequal(t, s.vouchers[7].BeginAt, got.BeginAt, "what is stored and what is returned begin at")
}

func TestCreateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*voucher.Voucher)
		want   error
	}{
		"a weak policy":             {func(v *voucher.Voucher) { v.Policy.Lock = "naive" }, voucher.ErrLabOnly},
		"a lock without servers":    {func(v *voucher.Voucher) { v.Policy.Lock = "red" }, voucher.ErrInvalid},
		"admission without a gate":  {func(v *voucher.Voucher) { v.Policy.Flow = voucher.FlowAdmission }, voucher.ErrInvalid},
		"a stock without rows":      {func(v *voucher.Voucher) { v.Policy.Lock, v.Policy.Stock = "none", voucher.StockRows }, voucher.ErrInvalid},
		"less than a microsecond":   {func(v *voucher.Voucher) { v.EndAt = v.BeginAt.Add(999 * time.Nanosecond) }, voucher.ErrInvalid},
		"an end in the year 10,000": {func(v *voucher.Voucher) { v.EndAt = newYearsEve9999(-14) }, voucher.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			v, s := validVoucher(), &memoryStore{}
			tc.change(&v)
			service := newService(s)
			service.Unsuited = func(p voucher.Policy) (field, why string) {
				if p.Stock == voucher.StockRows {
					return "policy.stock", "it has no rows"
				}
				return "", ""
			}
			fail.Unless(t, fail.Of(service.Create(t.Context(), v)), tc.want, "Create")
			if len(s.vouchers) > 0 {
				t.Error("it was stored")
			}
			service.Admission = true
			if _, err := service.Create(t.Context(), v); (err == nil) != (v.Policy.Flow == voucher.FlowAdmission) {
				t.Errorf("with a gate: %v", err)
			}
		})
	}
}

// newYearsEve9999 is the last second of the year 9999 in a time zone, hours from UTC. West of UTC it is already the
// next year in UTC.
func newYearsEve9999(hours int) time.Time {
	return time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", hours*3600))
}

// There is one voucher with a reserved id, whichever attempt stored it.
func TestCreateReturnsTheVoucherOfAnotherAttempt(t *testing.T) {
	earlier := validVoucher()
	earlier.ID, earlier.Title = 42, "the earlier one"
	for name, s := range map[string]*memoryStore{
		"before this one began": {vouchers: map[int64]*voucher.Voucher{42: &earlier}},
		"while this one worked": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if s == nil {
				s = &memoryStore{}
				s.before = func(*voucher.Voucher) error {
					s.put(earlier)
					return errStore // the id is taken
				}
			}
			v := validVoucher()
			v.ID = 42
			got, err := newService(s).Create(t.Context(), v)
			if err != nil || got.Title != earlier.Title {
				t.Errorf("Create = %+v, %v; want the earlier one", got, err)
			}
		})
	}
}

// A voucher whose commit got no answer is confirmed once it is on the disk: while it is only visible, a crash can undo
// it.
func TestCreateWhoseReplyWasLost(t *testing.T) {
	errFlush := errors.New("the disk hangs")
	lost := func(*voucher.Voucher) error { return errStore }
	s, v := &memoryStore{after: lost, flush: errFlush}, validVoucher()
	v.ID = 42
	create := func(what string, want error) {
		t.Helper()
		if got, err := newService(s).Create(t.Context(), v); !errors.Is(err, want) || err == nil && got.ID != 42 {
			t.Errorf("%s: Create = %+v, %v; want %v", what, got, err, want)
		}
	}
	create("visible", errStore)
	create("again", errFlush)
	s.flush = nil
	create("on the disk", nil)
	s = &memoryStore{after: lost}
	create("at once on the disk", nil)
	s = &memoryStore{before: lost}
	create("not stored", errStore)
}
