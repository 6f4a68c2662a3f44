package voucher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lock"
)

// IDs generates voucher ids: positive, and never the same one twice.
type IDs interface {
	NextID(ctx context.Context) (int64, error)
}

// Lockers finds a lock mechanism by name. [lock.Registry] implements it.
type Lockers interface {
	Locker(name string) (lock.Locker, error)
}

// Service creates and returns vouchers.
type Service struct {
	Store   Store
	IDs     IDs
	Lockers Lockers
	// Unsuited returns the field of a policy with which the database cannot sell, and the reason; an empty field if it
	// can. nil is a database that can sell under any policy.
	Unsuited func(Policy) (field, why string)
	// Admission says that the server supports the admission flow.
	Admission bool
	// Payments says that the server has a payment provider.
	Payments bool
	// Lab allows policies that are not safe.
	Lab bool
	Now func() time.Time
	// Gate sells vouchers under the admission flow; nil if the server does not support it.
	Gate Gate
	// Cache serves reads; without it each read asks the store.
	Cache *Cache
}

// Create creates a voucher. It sets the stock, the version and the time of creation. It also sets the ID, unless v has
// one that was reserved for it: if another attempt has created a voucher with that ID, Create returns that one. Its
// errors are [ErrInvalid], [ErrLabOnly] and the store's.
func (s *Service) Create(ctx context.Context, v Voucher) (*Voucher, error) {
	// The store keeps UTC with microseconds, so the same values are validated and returned.
	v.BeginAt = v.BeginAt.UTC().Truncate(time.Microsecond)
	v.EndAt = v.EndAt.UTC().Truncate(time.Microsecond)
	v.CreatedAt = s.Now().UTC().Truncate(time.Microsecond)
	if err := v.Validate(); err != nil {
		return nil, err
	}
	if !s.Lab {
		if err := v.Policy.Safe(); err != nil {
			return nil, err
		}
	}
	if v.Policy.Flow == FlowAdmission && !s.Admission {
		return nil, invalid("policy.flow", ": %q is not available on this server", FlowAdmission)
	}
	if v.AsksForPayment() && !s.Payments {
		return nil, invalid("pay_within_s", ": this server has no payment provider")
	}
	if s.Unsuited != nil {
		if field, why := s.Unsuited(v.Policy); field != "" {
			return nil, invalid(field, ": %s", why)
		}
	}
	if _, err := s.Lockers.Locker(v.Policy.Lock); err != nil {
		return nil, invalid("policy.lock", ": %v", err)
	}
	if v.ID != 0 {
		if created, err := s.Store.DurableVoucher(ctx, v.ID); !errors.Is(err, ErrNotFound) {
			return created, err
		}
	} else {
		id, err := s.IDs.NextID(ctx)
		if err != nil {
			return nil, fmt.Errorf("generate a voucher id: %w", err)
		}
		v.ID = id
	}
	v.Stock, v.Version, v.Revision = v.InitialStock, 0, 1
	if err := s.Store.CreateVoucher(ctx, &v); err != nil {
		// It may exist all the same: the reply was lost, or an earlier attempt with the same ID was still running.
		if created, absent := s.Store.DurableVoucher(ctx, v.ID); absent == nil {
			s.cache(created)
			return created, nil
		}
		return nil, err
	}
	s.cache(&v)
	return &v, nil
}

// cache stores a voucher that was created or changed in the cache, so that the next read returns it.
func (s *Service) cache(v *Voucher) {
	if s.Cache != nil {
		s.Cache.Stored(v)
	}
}

// Voucher returns a voucher, or [ErrNotFound]. Its stock may be as old as the cache allows.
func (s *Service) Voucher(ctx context.Context, id int64) (*Voucher, error) {
	if s.Cache != nil {
		return s.Cache.Read(ctx, id)
	}
	return s.Store.Voucher(ctx, id)
}

// Vouchers returns up to limit vouchers of a list. They may be as old as the cache allows, and the caller must not
// change them.
func (s *Service) Vouchers(ctx context.Context, list List, limit int) ([]*Voucher, error) {
	if s.Cache != nil {
		return s.Cache.Vouchers(ctx, list, limit)
	}
	return s.Store.Vouchers(ctx, list, s.Now(), limit)
}
