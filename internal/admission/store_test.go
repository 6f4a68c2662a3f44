package admission

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// store is the database in memory: one voucher, orders by user.
type store struct {
	mu         sync.Mutex
	voucher    voucher.Voucher
	epochState contract.EpochState
	orders     map[int64]order.Order // by user
	rejected   map[int64]order.Order // by id
	refused    map[int64]bool        // users whose orders are refused
	down       error
	others     []contract.AdmissionVoucher
	cleared    bool
	onForget   func() // before a voucher is marked, with the lock held
	onOpen     func() // after an epoch was opened here, and before it is in Redis
}

// newStore returns a database with one voucher, on sale now.
func newStore(stock int64) *store {
	now := time.Now()
	return &store{
		voucher: voucher.Voucher{
			ID: 7001, Stock: stock, InitialStock: stock,
			BeginAt: now.Add(-time.Hour), EndAt: now.Add(time.Hour), Revision: 1,
		},
		epochState: contract.EpochState{Epoch: 1, Seq: make([]int64, 1), Stock: stock},
		orders:     make(map[int64]order.Order), rejected: make(map[int64]order.Order),
	}
}

func (s *store) split(buckets int) {
	s.voucher.Policy.Buckets, s.epochState.Seq = buckets, make([]int64, buckets)
}

func (s *store) do(id int64, fn func() error) (contract.EpochState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != nil:
		return contract.EpochState{}, s.down
	case id != s.voucher.ID:
		return contract.EpochState{}, voucher.ErrNotFound
	}
	err := fn()
	now := s.epochState
	now.BeginAt, now.EndAt = s.voucher.BeginAt, s.voucher.EndAt
	now.Paused, now.Revision = s.voucher.Paused, s.voucher.Revision
	now.Seq = slices.Clone(now.Seq) // it goes on
	return now, err
}

func (s *store) EpochState(_ context.Context, id int64) (contract.EpochState, error) {
	return s.do(id, func() error { return nil })
}

func (s *store) Close(_ context.Context, id int64) (contract.EpochState, error) {
	return s.do(id, func() error {
		if s.epochState.Forgotten {
			s.epochState.Epoch += 2
			s.epochState.Forgotten, s.cleared = false, false
		}
		s.epochState.Epoch |= 1
		return nil
	})
}

func (s *store) CloseAbove(_ context.Context, id, epoch int64) (contract.EpochState, error) {
	return s.do(id, func() error {
		if s.epochState.Epoch < epoch {
			s.epochState.Epoch, s.epochState.Forgotten, s.cleared = (epoch+1)|1, false, false
		}
		return nil
	})
}

func (s *store) Open(_ context.Context, id, closed int64) (contract.EpochState, error) {
	st, err := s.do(id, func() error {
		if s.epochState.Epoch != closed {
			return order.ErrConflict
		}
		s.epochState.Epoch++
		s.epochState.ReturnedToFirst, s.epochState.Returned, s.epochState.Arrived = 0, 0, nil
		return nil
	})
	if err == nil && s.onOpen != nil {
		s.onOpen()
	}
	return st, err
}

func (s *store) LiveOrders(_ context.Context, _, after int64, limit int) ([]order.Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page []order.Order
	for _, user := range slices.Sorted(maps.Keys(s.orders)) {
		if user > after && len(page) < limit {
			page = append(page, s.orders[user])
		}
	}
	return page, s.down
}

func (s *store) AdmissionVouchers(_ context.Context, endsAfter time.Time) ([]contract.AdmissionVoucher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voucher.EndAt.After(endsAfter) && !s.epochState.Forgotten {
		return append([]contract.AdmissionVoucher{{VoucherID: s.voucher.ID, Buckets: len(s.epochState.Seq), Epoch: s.epochState.Epoch}}, s.others...), s.down
	}
	return s.others, s.down
}

func (s *store) AdmissionVouchersOf(_ context.Context, ids []int64) ([]contract.AdmissionVoucher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(ids, s.voucher.ID) && !s.epochState.Forgotten {
		return []contract.AdmissionVoucher{{VoucherID: s.voucher.ID, Buckets: len(s.epochState.Seq), Epoch: s.epochState.Epoch}}, s.down
	}
	return nil, s.down
}

func (s *store) Forget(_ context.Context, id, closed int64, endedBy time.Time) error {
	_, err := s.do(id, func() error {
		if s.onForget != nil {
			s.onForget()
		}
		if s.epochState.Epoch != closed || closed%2 == 0 || s.voucher.EndAt.After(endedBy) {
			return order.ErrConflict
		}
		s.epochState.Forgotten = true
		return nil
	})
	return err
}

func (s *store) Cleared(_ context.Context, id, forgotten int64) error {
	_, err := s.do(id, func() error {
		if s.epochState.Epoch != forgotten || !s.epochState.Forgotten {
			return order.ErrConflict
		}
		s.cleared = true
		return nil
	})
	return err
}

func (s *store) UnclearedVouchers(_ context.Context, endedBy time.Time, after int64, _ int) ([]contract.AdmissionVoucher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cleared || s.voucher.EndAt.After(endedBy) || s.voucher.ID <= after {
		return nil, s.down
	}
	return []contract.AdmissionVoucher{{VoucherID: s.voucher.ID, Buckets: len(s.epochState.Seq)}}, s.down
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *store) has(user, id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders[user].ID == id
}

// persist does what a consumer's transaction does; see [contract.AdmissionStore].
func (s *store) persist(a contract.Accepted) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch have, ordered := s.orders[a.UserID]; {
	case have.ID == a.OrderID && ordered:
		return nil
	case s.rejected[a.OrderID].ID != 0, s.refused[a.UserID]:
		return order.ErrConflict
	case ordered:
		return order.ErrAlreadyOrdered
	case s.epochState.Epoch > a.Epoch|1:
		return order.ErrStaleEpoch
	case s.epochState.Stock <= 0:
		return voucher.ErrSoldOut
	}
	s.epochState.Stock--
	s.epochState.Seq[a.Bucket] = max(s.epochState.Seq[a.Bucket], a.Seq)
	s.orders[a.UserID] = order.Order{ID: a.OrderID, UserID: a.UserID, VoucherID: a.VoucherID, Status: order.Confirmed, Key: a.Key}
	return nil
}
