package stores

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// readCommitted is a model of a database at READ COMMITTED with one voucher, which answers as InnoDB does:
//
//   - a read sees what is committed, and what its own transaction wrote;
//   - an update locks the row, reads what is committed then, and keeps the lock if the row matches;
//   - an insert locks its entry of the unique index; an entry that another transaction has not committed yet is waited for;
//   - locks are kept until the transaction's end, and go to those that wait in their order.
type readCommitted struct {
	order.Store // what an order of the locked flow does not use

	mu             sync.Mutex
	initial        int64
	stock, version int64
	orders         []order.Order
	indexed        map[int64]bool // the users in the unique index
	locks          map[string]*rowLock
}

// rowLock is the lock of a row or an index entry.
type rowLock struct {
	holder  any
	waiting []waiter
}

type waiter struct {
	process *process
	tx      any
}

const voucherRow = "voucher"

func newReadCommitted(stock int64) *readCommitted {
	return &readCommitted{initial: stock, stock: stock, indexed: map[int64]bool{}, locks: map[string]*rowLock{}}
}

// lock returns once a transaction holds a lock. The caller has locked m.mu.
func (m *readCommitted) lock(ctx context.Context, tx any, name string) {
	l := m.locks[name]
	switch {
	case l == nil:
		m.locks[name] = &rowLock{holder: tx}
	case l.holder != tx:
		l.waiting = append(l.waiting, waiter{processOf(ctx), tx})
		m.mu.Unlock()
		defer m.mu.Lock()
		processOf(ctx).wait() // until unlock has made tx the holder
	}
}

func (m *readCommitted) unlock(name string) {
	l := m.locks[name]
	if len(l.waiting) == 0 {
		delete(m.locks, name)
		return
	}
	first := l.waiting[0]
	l.holder, l.waiting = first.tx, l.waiting[1:]
	first.process.wake()
}

// Transact implements [order.Store].
func (m *readCommitted) Transact(ctx context.Context, fn func(ctx context.Context, tx order.Tx) error) error {
	t := &modelTx{readCommitted: m}
	err := fn(ctx, t)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		t.apply()
	}
	for _, name := range t.held {
		m.unlock(name)
	}
	return err
}

// DurableOrder implements [order.Store].
func (m *readCommitted) DurableOrder(_ context.Context, id int64) (order.Order, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.orders {
		if o.ID == id {
			return o, nil
		}
	}
	return order.Order{}, order.ErrNotFound
}

// Ordered implements [order.Store].
func (m *readCommitted) Ordered(_ context.Context, _, userID int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.orders, func(o order.Order) bool { return o.UserID == userID }), nil
}

// audit counts what is committed.
func (m *readCommitted) audit() order.Audit {
	users := map[int64]bool{}
	for _, o := range m.orders {
		users[o.UserID] = true
	}
	return order.Audit{
		InitialStock: m.initial, Stock: m.stock, Orders: int64(len(m.orders)), DistinctUsers: int64(len(users)),
	}
}

// state is what is committed. Locks, and writes that are not committed, follow from what the processes saw.
func (m *readCommitted) state() string {
	s := fmt.Sprint(m.stock, m.version)
	for _, o := range m.orders {
		s += fmt.Sprint(" ", o.ID)
	}
	return s
}

// modelTx is a transaction of the model.
type modelTx struct {
	*readCommitted
	held           []string
	wrote          bool // the voucher's row, which is then as follows
	stock, version int64
	inserted       []order.Order
	unique         []int64
}

func (t *modelTx) apply() {
	if t.wrote {
		t.readCommitted.stock, t.readCommitted.version = t.stock, t.version
	}
	t.orders = append(t.orders, t.inserted...)
	for _, user := range t.unique {
		t.indexed[user] = true
	}
}

// Flush implements [order.Tx]. Nothing is deferred.
func (t *modelTx) Flush(context.Context) error { return nil }

// AtRevision implements [order.Tx]. Nobody changes the voucher.
func (t *modelTx) AtRevision(int64) {}

// StockOf implements [order.Tx].
func (t *modelTx) StockOf(context.Context, int64) (stock, version int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrote {
		return t.stock, t.version, nil
	}
	return t.readCommitted.stock, t.readCommitted.version, nil
}

// update locks the voucher's row and changes it if it matches.
func (t *modelTx) update(ctx context.Context, match func() bool, stock func() int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lock(ctx, t, voucherRow)
	if !t.wrote {
		t.stock, t.version = t.readCommitted.stock, t.readCommitted.version
	}
	if !match() {
		if !t.wrote {
			t.unlock(voucherRow)
		}
		return false
	}
	if !t.wrote {
		t.held, t.wrote = append(t.held, voucherRow), true
	}
	t.stock, t.version = stock(), t.version+1
	return true
}

func (t *modelTx) left() bool      { return t.stock > 0 }
func (t *modelTx) oneLess() int64  { return t.stock - 1 }
func always() bool                 { return true }
func (t *modelTx) is(v int64) bool { return t.version == v }

// Decrement implements [order.Tx].
func (t *modelTx) Decrement(ctx context.Context, _ int64) error {
	if !t.update(ctx, t.left, t.oneLess) {
		return voucher.ErrSoldOut
	}
	return nil
}

// SetStock implements [order.Tx].
func (t *modelTx) SetStock(ctx context.Context, _, stock int64) error {
	t.update(ctx, always, func() int64 { return stock })
	return nil
}

// DecrementVersion implements [order.Tx].
func (t *modelTx) DecrementVersion(ctx context.Context, id, version int64) error {
	if t.update(ctx, func() bool { return t.is(version) && t.left() }, t.oneLess) {
		return nil
	}
	if stock, _, _ := t.StockOf(ctx, id); stock == 0 {
		return voucher.ErrSoldOut
	}
	return order.ErrConflict
}

// DecrementFenced implements [order.Tx].
func (t *modelTx) DecrementFenced(context.Context, int64, uint64) error {
	panic("the model has no fencing tokens")
}

// DecrementRow implements [order.Tx].
func (t *modelTx) DecrementRow(context.Context, int64, int64) error {
	panic("the model has one row")
}

// TakeUnit implements [order.Tx].
func (t *modelTx) TakeUnit(context.Context, int64, int64) error {
	panic("the model has one row")
}

// Insert implements [order.Tx].
func (t *modelTx) Insert(ctx context.Context, o order.Order, unique bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if unique {
		name := fmt.Sprint("user ", o.UserID)
		t.lock(ctx, t, name)
		t.held = append(t.held, name)
		if t.indexed[o.UserID] {
			return order.ErrAlreadyOrdered
		}
		t.unique = append(t.unique, o.UserID)
	}
	t.inserted = append(t.inserted, o)
	return nil
}
