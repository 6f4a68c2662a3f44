package voucher_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
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
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != 7 || got.Stock != v.InitialStock || got.Version != 0 || got.CreatedAt != begin || got.BeginAt != begin.Add(time.Microsecond) {
		t.Errorf("created %+v", got)
	}
	if s.vouchers[7].BeginAt != got.BeginAt {
		t.Errorf("stored %+v, returned %+v", s.vouchers[7], got)
	}
}

func TestCreateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*voucher.Voucher)
		want   error
	}{
		"a weak policy":             {func(v *voucher.Voucher) { v.Policy.Lock = "naive" }, voucher.ErrLabOnly},
		"a lock without servers":    {func(v *voucher.Voucher) { v.Policy.Lock = "red" }, voucher.ErrInvalid},
		"admission without a gate":  {func(v *voucher.Voucher) { v.Policy.Flow = voucher.FlowAdmission }, voucher.ErrInvalid},
		"less than a microsecond":   {func(v *voucher.Voucher) { v.EndAt = v.BeginAt.Add(999 * time.Nanosecond) }, voucher.ErrInvalid},
		"an end in the year 10,000": {func(v *voucher.Voucher) { v.EndAt = newYearsEve9999(-14) }, voucher.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			v, s := validVoucher(), &memoryStore{}
			tc.change(&v)
			if got, err := newService(s).Create(t.Context(), v); !errors.Is(err, tc.want) {
				t.Errorf("Create = %+v, %v; want %v", got, err, tc.want)
			}
			if len(s.vouchers) > 0 {
				t.Error("it was stored")
			}
		})
	}
}

// newYearsEve9999 is the last second of the year 9999 in a time zone, hours from UTC. West of UTC it is already
// the next year in UTC.
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

func TestCreateWhoseReplyWasLost(t *testing.T) {
	s := &memoryStore{after: func(*voucher.Voucher) error { return errStore }}
	if got, err := newService(s).Create(t.Context(), validVoucher()); err != nil || got.ID != 7 {
		t.Errorf("stored: Create = %+v, %v; want the voucher", got, err)
	}
	s = &memoryStore{before: s.after}
	if got, err := newService(s).Create(t.Context(), validVoucher()); !errors.Is(err, errStore) {
		t.Errorf("not stored: Create = %+v, %v; want the store's error", got, err)
	}
}

// A voucher that is visible and not on the disk yet is not confirmed.
func TestCreateThatACrashCanUndo(t *testing.T) {
	errFlush := errors.New("the disk hangs")
	s := &memoryStore{after: func(*voucher.Voucher) error { return errStore }, flush: errFlush}
	v := validVoucher()
	v.ID = 42
	if got, err := newService(s).Create(t.Context(), v); !errors.Is(err, errStore) {
		t.Errorf("Create = %+v, %v; want the store's error", got, err)
	}
	if got, err := newService(s).Create(t.Context(), v); !errors.Is(err, errFlush) {
		t.Errorf("again: Create = %+v, %v; want the error of the flush", got, err)
	}
	s.flush = nil
	if got, err := newService(s).Create(t.Context(), v); err != nil || got.ID != 42 {
		t.Errorf("on the disk: Create = %+v, %v", got, err)
	}
}

func TestCreateUnderAdmission(t *testing.T) {
	service := newService(&memoryStore{})
	service.Admission = true
	v := validVoucher()
	v.Policy.Flow = voucher.FlowAdmission
	if got, err := service.Create(t.Context(), v); err != nil || got.Policy.Flow != voucher.FlowAdmission {
		t.Errorf("Create = %+v, %v", got, err)
	}
}

// A validation error is one sentence about one field.
func TestPolicyErrorIsOneSentence(t *testing.T) {
	v := validVoucher()
	v.Policy.Flow, v.Policy.Scope, v.Policy.Stock = "?", "?", "?"
	err := v.Validate()
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "policy.flow") {
		t.Errorf("Validate = %q", err)
	}
}
