package reconcile

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"

	"seckill/internal/admission/contract"
)

// Report is the result for all vouchers.
type Report struct {
	Balanced bool       `json:"balanced"`
	Vouchers []Equation `json:"vouchers"`
}

// Equation is the stock equation of one voucher; see the package's documentation. If the state is moving, the numbers
// were not read at one moment, and the drift is what that cannot explain.
type Equation struct {
	VoucherID string `json:"voucher_id"`
	State     State  `json:"state"`
	Balanced  bool   `json:"balanced"`

	InitialStock int64 `json:"initial_stock"`
	// RedisStock is null if Redis does not have the voucher.
	RedisStock *int64 `json:"redis_stock"`
	Pending    int64  `json:"pending"`
	// Unacknowledged counts the pending orders that are confirmed already.
	Unacknowledged int64 `json:"unacknowledged"`
	// Returning is stock that orders gave back in the database and that Redis was not told of yet.
	Returning int64 `json:"returning,omitempty"`
	// Confirmed counts the live orders: confirmed, unpaid or paid.
	Confirmed     int64 `json:"confirmed"`
	DatabaseStock int64 `json:"database_stock"`
	DeadLetters   int64 `json:"dead_letters"`

	Drift int64 `json:"drift"`
	// Unsellable is a drift above 0: stock in the database that nobody can buy, see [TakeOver].
	Unsellable      int64 `json:"unsellable,omitempty"`
	DatabaseDrift   int64 `json:"database_drift"`
	Oversold        int64 `json:"oversold"`
	DuplicateOrders int64 `json:"duplicate_orders"`

	// RedisAhead says that Redis has a later epoch than the database, which has older data then.
	RedisAhead bool `json:"redis_ahead,omitempty"`

	Redis    Progress `json:"redis"`
	Database Progress `json:"database"`

	// Buckets are the buckets of a voucher that has several. RedisStock is their stock and the stock in transit between
	// them; each seq above is a sum.
	Buckets   []Bucket `json:"buckets,omitempty"`
	InTransit int64    `json:"in_transit,omitempty"`

	// Dead is set if the dead letters were asked for.
	Dead *DeadLetters `json:"dead,omitempty"`
}

// Bucket is one bucket in Redis. The stock is null if Redis does not have the bucket.
type Bucket struct {
	Stock       *int64 `json:"stock"`
	Pending     int64  `json:"pending"`
	Seq         int64  `json:"seq"`
	DatabaseSeq int64  `json:"database_seq"`
	DeadLetters int64  `json:"dead_letters"`
}

// Progress is the epoch and the sequence number that one side has; 0 for one that it does not have.
type Progress struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"`
}

// Report checks vouchers and returns their equations, with the dead letters if withDead is set.
func (r *Reconciler) Report(ctx context.Context, vouchers []contract.AdmissionVoucher, withDead bool) (Report, error) {
	found := r.Check(ctx, vouchers)
	report := Report{Balanced: true, Vouchers: make([]Equation, len(found))}
	for i, f := range found {
		if f.Err != nil {
			return report, fmt.Errorf("voucher %d: %w", f.voucherID, f.Err)
		}
		report.Vouchers[i] = newEquation(f.Reading)
		report.Balanced = report.Balanced && f.Balanced()
		if withDead {
			var err error
			if report.Vouchers[i].Dead, err = r.deadLetters(ctx, vouchers[i], f.after.dead()); err != nil {
				return report, fmt.Errorf("voucher %d: %w", f.voucherID, err)
			}
		}
	}
	return report, nil
}

func newEquation(l Reading) Equation {
	e := Equation{
		VoucherID: strconv.FormatInt(l.voucherID, 10), State: l.State(), Balanced: l.Balanced(),
		Pending: l.after.pending(), Unacknowledged: l.unacknowledged, DeadLetters: l.after.dead(),
		InitialStock: l.audit.InitialStock, Confirmed: l.audit.Orders, DatabaseStock: l.audit.Stock,
		Drift: l.drift(), Unsellable: l.unsellable(), DatabaseDrift: l.audit.Drift(), RedisAhead: l.ahead(),
		Oversold: l.audit.Oversold(), DuplicateOrders: l.audit.DuplicateOrders(),
		Redis:    Progress{Epoch: max(0, l.after.epoch()), Seq: l.after.seq()},
		Database: Progress{Epoch: l.database.Epoch},
	}
	if l.State() == Moving || l.State() == AtRest {
		e.Returning = l.returning()
	}
	for _, seq := range l.database.Seq {
		e.Database.Seq += seq
	}
	if l.after.there() {
		e.RedisStock = new(l.after.stock())
	}
	if len(l.after) > 1 {
		e.Buckets, e.InTransit = newBuckets(l), l.after.transit()
	}
	return e
}

func newBuckets(l Reading) []Bucket {
	all := make([]Bucket, len(l.after))
	for i, b := range l.after {
		all[i] = Bucket{Pending: b.pending, Seq: max(0, b.seq), DeadLetters: b.dead}
		if b.stock >= 0 {
			all[i].Stock = new(b.stock)
		}
		if i < len(l.database.Seq) {
			all[i].DatabaseSeq = l.database.Seq[i]
		}
	}
	return all
}

// PrintTable prints the equations, one voucher a line.
func (r Report) PrintTable(out io.Writer) error {
	wrong := 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "voucher\tstate\tinitial\t= redis\t+ pending\t- unacked\t+ returning\t+ live\t+ drift\tdatabase\tits drift\tdead\tepoch\tseq\t")
	for _, e := range r.Vouchers {
		redisStock, verdict := "-", ""
		if e.RedisStock != nil {
			redisStock = strconv.FormatInt(*e.RedisStock, 10)
		}
		if !e.Balanced {
			verdict = "does not balance"
			wrong++
		}
		if e.Unsellable > 0 {
			verdict = fmt.Sprintf("does not balance: the database has %d more than can be sold", e.Unsellable)
		}
		if e.RedisAhead {
			verdict = "does not balance: the database is behind Redis"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n",
			e.VoucherID, e.State, e.InitialStock, redisStock, e.Pending, e.Unacknowledged, e.Returning, e.Confirmed, e.Drift,
			e.DatabaseStock, e.DatabaseDrift, e.DeadLetters,
			both(e.Redis.Epoch, e.Database.Epoch), both(e.Redis.Seq, e.Database.Seq), verdict)
	}
	fmt.Fprintf(w, "%d of %d vouchers balance\n", len(r.Vouchers)-wrong, len(r.Vouchers))
	if slices.ContainsFunc(r.Vouchers, func(e Equation) bool { return e.State == Moving }) {
		fmt.Fprintln(w, "moving: read at several moments; drift is what that cannot explain")
	}
	if slices.ContainsFunc(r.Vouchers, func(e Equation) bool { return e.Unsellable > 0 }) {
		fmt.Fprintln(w, "more than can be sold: the stock was raised in the database by hand, or Redis has lost some of it; this has it sold:\n  "+TakeOver)
	}
	return w.Flush()
}

// TakeOver is the statement that has a voucher sell the stock that the database has, for instance after it was raised
// there by hand. It closes the voucher in the database; the next check of a process closes it in Redis, and opens it
// again with that stock once all accepted orders are persisted.
const TakeOver = "UPDATE vouchers SET admission_epoch = admission_epoch + 1 WHERE id = ID AND admission_epoch % 2 = 0"

// both shows the values of Redis and of the database, or one value if they are the same.
func both(redis, database int64) string {
	if redis == database {
		return strconv.FormatInt(redis, 10)
	}
	return fmt.Sprintf("%d/%d", redis, database)
}
