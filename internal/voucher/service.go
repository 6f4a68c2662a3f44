package voucher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lock"
)

// IDs mints voucher ids: positive, never the same twice.
type IDs interface {
	NextID(ctx context.Context) (int64, error)
}

// Lockers finds a mechanism by name; [lock.Registry] is one.
type Lockers interface {
	Locker(name string) (lock.Locker, error)
}

// Service puts vouchers on sale and shows them.
type Service struct {
	Store   Store
	IDs     IDs
	Lockers Lockers
	// Admission says that the server sells under the flow of that name.
	Admission bool
	// Lab lets a voucher be sold under a policy that is not safe.
	Lab bool
	Now func() time.Time
}

// Create puts a voucher on sale. The stock that is left, the version and the time
// of creation are its own to set; so is the ID, unless v has one that was reserved
// for it: then a voucher that another attempt created under it is returned. It
// returns [ErrInvalid], [ErrLabOnly] or what the store says.
func (s *Service) Create(ctx context.Context, v Voucher) (*Voucher, error) {
	// The store keeps microseconds, in UTC: so does what is judged and returned.
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
		return nil, invalid("policy.flow: %q is not available on this server", FlowAdmission)
	}
	if _, err := s.Lockers.Locker(v.Policy.Lock); err != nil {
		return nil, invalid("policy.lock: %v", err)
	}
	if v.ID != 0 {
		if created, err := s.Store.Voucher(ctx, v.ID); !errors.Is(err, ErrNotFound) {
			return created, err
		}
	} else {
		id, err := s.IDs.NextID(ctx)
		if err != nil {
			return nil, fmt.Errorf("mint a voucher id: %w", err)
		}
		v.ID = id
	}
	v.Stock, v.Version = v.InitialStock, 0
	if err := s.Store.CreateVoucher(ctx, &v); err != nil {
		// It may be there all the same: the reply was lost, or an earlier attempt
		// under the same ID was still at work.
		if created, absent := s.Store.Voucher(ctx, v.ID); absent == nil {
			return created, nil
		}
		return nil, err
	}
	return &v, nil
}

// Voucher returns a voucher with its stock as it is now, or [ErrNotFound].
func (s *Service) Voucher(ctx context.Context, id int64) (*Voucher, error) {
	return s.Store.Voucher(ctx, id)
}

// Vouchers lists up to limit vouchers with an ID above after, oldest first.
func (s *Service) Vouchers(ctx context.Context, after int64, limit int) ([]*Voucher, error) {
	return s.Store.Vouchers(ctx, after, limit)
}
