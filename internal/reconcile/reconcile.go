package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// Vouchers is the part of the database that knows the vouchers; [database.AdmissionStore] has it.
type Vouchers interface {
	EpochState(ctx context.Context, voucherID int64) (contract.EpochState, error)
	// AdmissionVouchers lists the vouchers whose sale ends after a time and which are not forgotten.
	AdmissionVouchers(ctx context.Context, endsAfter time.Time) ([]contract.AdmissionVoucher, error)
	// AllAdmissionVouchers lists every voucher that was ever sold by admission.
	AllAdmissionVouchers(ctx context.Context) ([]contract.AdmissionVoucher, error)
}

// Orders is the part of the database that knows the orders; [database.Orders] has it.
type Orders interface {
	Audit(ctx context.Context, voucherID int64) (order.Audit, error)
	Order(ctx context.Context, id int64) (order.Order, error)
	Rejected(ctx context.Context, voucherID int64) (int64, error)
}

// Config is what a [Reconciler] needs.
type Config struct {
	Client redis.UniversalClient
	// Prefix is the installation's prefix of keys.
	Prefix   string
	Vouchers Vouchers
	Orders   Orders
	// Pause is the time between two readings of a voucher that does not balance: enough for requests and batches in
	// flight to end. Default 500 ms.
	Pause time.Duration
}

// Reconciler compares Redis with the database.
type Reconciler struct {
	Config
	ledger *ledger.Ledger
}

// New returns a reconciler.
func New(c Config) *Reconciler {
	if c.Pause == 0 {
		c.Pause = 500 * time.Millisecond
	}
	return &Reconciler{Config: c, ledger: ledger.New(c.Client, ledger.Options{RepeatReads: true})}
}

// List lists the vouchers that were ever sold by admission, or only the given one if voucherID is not 0. The error is
// [voucher.ErrNotFound] where there is no such voucher.
func (r *Reconciler) List(ctx context.Context, voucherID int64) ([]contract.AdmissionVoucher, error) {
	if voucherID == 0 {
		return r.Vouchers.AllAdmissionVouchers(ctx)
	}
	st, err := r.Vouchers.EpochState(ctx, voucherID)
	if err != nil {
		return nil, err
	}
	return []contract.AdmissionVoucher{{VoucherID: voucherID, Buckets: len(st.Seq)}}, nil
}

// Read reads a voucher once and counts its orders.
func (r *Reconciler) Read(ctx context.Context, v contract.AdmissionVoucher) (Reading, error) {
	return r.read(ctx, v, always)
}

// Balances reads a voucher once and reports whether it balances.
func (r *Reconciler) Balances(ctx context.Context, v contract.AdmissionVoucher) (bool, error) {
	reading, err := r.Read(ctx, v)
	return err == nil && reading.Balanced(), err
}

// Checked is the last reading of a voucher, or the reason why there is none.
type Checked struct {
	Reading
	Err error
}

// countOrders reports whether a voucher's orders are to be counted, given its state in Redis. To count them takes time
// in proportion to their number.
type countOrders func(voucherID int64, now buckets) bool

func always(int64, buckets) bool { return true }

// Check reads vouchers and counts their orders. It reads a voucher that does not balance again until the imbalance
// persists.
func (r *Reconciler) Check(ctx context.Context, vouchers []contract.AdmissionVoucher) []Checked {
	return r.check(ctx, vouchers, always)
}

// maxReadings is how often a voucher is read that does not balance.
const maxReadings = 10

func (r *Reconciler) check(ctx context.Context, vouchers []contract.AdmissionVoucher, count countOrders) []Checked {
	found := make([]Checked, len(vouchers))
	unbalanced := make([]int, 0, len(vouchers))
	for i, v := range vouchers {
		found[i] = r.find(ctx, v, count)
		if found[i].Err == nil && !found[i].Balanced() {
			unbalanced = append(unbalanced, i)
		}
	}
	for n := 1; n < maxReadings && len(unbalanced) > 0; n++ {
		select {
		case <-time.After(r.Pause):
		case <-ctx.Done():
		}
		moving := unbalanced[:0]
		for _, i := range unbalanced {
			before := found[i].Reading
			found[i] = r.find(ctx, vouchers[i], func(id int64, now buckets) bool {
				return before.audit != nil || count(id, now)
			})
			if found[i].Err == nil && !found[i].Balanced() && !found[i].same(before) {
				moving = append(moving, i)
			}
		}
		unbalanced = moving
	}
	return found
}

func (r *Reconciler) find(ctx context.Context, v contract.AdmissionVoucher, count countOrders) Checked {
	reading, err := r.read(ctx, v, count)
	reading.voucherID = v.VoucherID
	return Checked{reading, err}
}

// read reads Redis, the database, and Redis again.
func (r *Reconciler) read(ctx context.Context, v contract.AdmissionVoucher, count countOrders) (l Reading, err error) {
	id := v.VoucherID
	if l.before, err = r.buckets(ctx, v); err != nil {
		return l, err
	}
	if l.database, err = r.Vouchers.EpochState(ctx, id); err != nil {
		return l, err
	}
	if count(id, l.before) {
		a, err := r.Orders.Audit(ctx, id)
		if err != nil {
			return l, err
		}
		l.audit, l.database.Stock, l.database.Returned = &a, a.Stock, a.Returned // read at one moment with the orders
	}
	if l.after, err = r.buckets(ctx, v); err != nil {
		return l, err
	}
	if l.drift() < 0 && l.after.pending() > 0 {
		l.unacknowledged, err = r.unacknowledged(ctx, v)
	}
	return l, err
}

// buckets reads the buckets of a voucher one after the other.
func (r *Reconciler) buckets(ctx context.Context, v contract.AdmissionVoucher) (buckets, error) {
	all := make(buckets, v.Buckets)
	for b := range all {
		s := r.ledger.State(ctx, ledger.KeysOf(r.Prefix, v.VoucherID, b))
		if s.Err != nil {
			return nil, fmt.Errorf("voucher %d, bucket %d: %w: read Redis: %w", v.VoucherID, b, order.ErrUnavailable, s.Err)
		}
		all[b] = bucket{epoch: s.Epoch, seq: s.Seq, stock: s.Stock, pending: s.Pending, dead: s.Dead, arrived: s.Arrived, lent: s.Lent()}
	}
	return all, nil
}

// maxUnacknowledged is how many orders of a bucket are looked up in the database. Those that a process confirmed before
// it died are the oldest, and no more than a batch or two.
const maxUnacknowledged = 2000

// unacknowledged counts the orders of the streams that the database has confirmed.
func (r *Reconciler) unacknowledged(ctx context.Context, v contract.AdmissionVoucher) (n int64, err error) {
	for b := range v.Buckets {
		stream := ledger.KeysOf(r.Prefix, v.VoucherID, b).Orders
		entries, err := r.Client.XRangeN(ctx, stream, "-", "+", maxUnacknowledged).Result()
		if err != nil {
			return 0, fmt.Errorf("%w: read Redis: %w", order.ErrUnavailable, err)
		}
		var oldest []ledger.Entry
		for _, e := range entries {
			oldest = append(oldest, ledger.ParseEntry(e.ID, e.Values)...)
		}
		for _, e := range oldest[:min(len(oldest), maxUnacknowledged)] {
			if e.Order.OrderID == 0 {
				continue // malformed: the consumers move it to the dead letters
			}
			switch o, err := r.Orders.Order(ctx, e.Order.OrderID); {
			case err == nil && o.VoucherID == v.VoucherID && e.Order.PersistedAs(o):
				n++
			case err != nil && !errors.Is(err, order.ErrNotFound):
				return 0, err
			}
		}
	}
	return n, nil
}
