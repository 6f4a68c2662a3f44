package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"text/tabwriter"

	"seckill/internal/database"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// reconciliation is the command: what it was asked for.
type reconciliation struct {
	json    bool
	dead    bool  // list the dead letters
	voucher int64 // 0: all
}

var (
	// errUsage: what was asked for cannot be.
	errUsage = errors.New("wrong usage")
	// errUnbalanced: the command's finding, which its exit code tells.
	errUnbalanced = errors.New("not all vouchers balance")
)

// parse reads the command's own flags and, of the service's settings, where the stores
// are. The rest does not matter here: nobody is served, so no secret is needed.
func (r *reconciliation) parse(args, environ []string, help io.Writer) (config, error) {
	flags := flag.NewFlagSet("api reconcile", flag.ContinueOnError)
	flags.BoolVar(&r.json, "json", false, "print JSON")
	flags.BoolVar(&r.dead, "dead", false, "list the dead letters")
	flags.Func("voucher", "look at this voucher alone", func(v string) (err error) {
		if r.voucher, err = strconv.ParseInt(v, 10, 64); err != nil || r.voucher < 1 {
			return errors.New("want the id of a voucher")
		}
		return nil
	})
	c, err := parseSettings(flags, args, environ, help)
	switch {
	case err != nil:
		return c, err
	case c.MySQLDSN == "" || len(c.RedisAddrs) == 0:
		return c, errors.New("reconcile needs SECKILL_MYSQL_DSN and SECKILL_REDIS_ADDRS: what an embedded service has, only itself can see")
	}
	return c, nil
}

// run prints the stock equation of each voucher. It changes nothing, the schema
// included, and can be run beside the service at any time.
func (r *reconciliation) run(ctx context.Context, cfg config, out, logs io.Writer) (err error) {
	client, err := openRedis(ctx, cfg.RedisAddrs, cfg.RedisMaster, cfg.RedisPassword, repeating)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelError}))
	db, err := database.Open(ctx, database.Config{MySQL: cfg.MySQLDSN, Logger: log})
	if err != nil {
		return fmt.Errorf("SECKILL_MYSQL_DSN: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	rec := newReconciler(client, db)
	sales, err := rec.sales(ctx, r.voucher)
	switch {
	case errors.Is(err, voucher.ErrNotFound):
		return fmt.Errorf("%w: there is no voucher %d that is sold by admission", errUsage, r.voucher)
	case err != nil:
		return err
	}
	report, err := r.report(ctx, rec, sales)
	if err != nil {
		return err
	}
	if err := r.print(out, report); err != nil {
		return err
	}
	if !report.Balanced {
		return errUnbalanced
	}
	return nil
}

func (r *reconciliation) report(ctx context.Context, rec *reconciler, sales []order.Sale) (reportJSON, error) {
	found := rec.settle(ctx, sales, func(int64, standingInRedis) bool { return true })
	report := reportJSON{Balanced: true, Vouchers: make([]equationJSON, len(found))}
	for i, f := range found {
		if f.err != nil {
			return report, fmt.Errorf("voucher %d: %w", f.voucher, f.err)
		}
		report.Vouchers[i] = newEquationJSON(f.look)
		report.Balanced = report.Balanced && f.balanced()
		if r.dead {
			var err error
			if report.Vouchers[i].Dead, err = rec.dead(ctx, sales[i], f.after.dead()); err != nil {
				return report, fmt.Errorf("voucher %d: %w", f.voucher, err)
			}
		}
	}
	return report, nil
}

func (r *reconciliation) print(out io.Writer, report reportJSON) error {
	if r.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	if err := report.table(out); err != nil || !r.dead {
		return err
	}
	return report.letters(out)
}

// reportJSON is what the command prints.
type reportJSON struct {
	Balanced bool           `json:"balanced"`
	Vouchers []equationJSON `json:"vouchers"`
}

// equationJSON is the stock equation of one voucher:
//
//	initial_stock = redis_stock + pending - unacknowledged + confirmed + drift
//	initial_stock = database_stock + confirmed + database_drift
//
// While it is not open, Redis has no part in it, and the first line is left out of
// account. Where the state is moving, the readings are not of one moment, and drift is
// what cannot be explained by that.
type equationJSON struct {
	VoucherID string `json:"voucher_id"`
	State     state  `json:"state"`
	Balanced  bool   `json:"balanced"`

	InitialStock int64 `json:"initial_stock"`
	// RedisStock is null where Redis does not have the voucher.
	RedisStock *int64 `json:"redis_stock"`
	Pending    int64  `json:"pending"`
	// Unacknowledged of the pending are confirmed already.
	Unacknowledged int64 `json:"unacknowledged"`
	Confirmed      int64 `json:"confirmed"`
	DatabaseStock  int64 `json:"database_stock"`
	DeadLetters    int64 `json:"dead_letters"`

	Drift           int64 `json:"drift"`
	DatabaseDrift   int64 `json:"database_drift"`
	Oversold        int64 `json:"oversold"`
	DuplicateOrders int64 `json:"duplicate_orders"`

	Redis    standingJSON `json:"redis"`
	Database standingJSON `json:"database"`

	// Buckets are those of a voucher that has several. Their stock and what is in transit
	// between them is redis_stock; every seq above is a sum.
	Buckets   []bucketJSON `json:"buckets,omitempty"`
	InTransit int64        `json:"in_transit,omitempty"`

	// Dead is there where it was asked for.
	Dead *deadLettersJSON `json:"dead,omitempty"`
}

// bucketJSON is one bucket in Redis. The stock is null where it is not there.
type bucketJSON struct {
	Stock       *int64 `json:"stock"`
	Pending     int64  `json:"pending"`
	Seq         int64  `json:"seq"`
	DatabaseSeq int64  `json:"database_seq"`
	DeadLetters int64  `json:"dead_letters"`
}

// standingJSON is how far a side has come; 0 where it does not know.
type standingJSON struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"`
}

func newEquationJSON(l look) equationJSON {
	e := equationJSON{
		VoucherID: strconv.FormatInt(l.voucher, 10), State: l.state(), Balanced: l.balanced(),
		Pending: l.after.pending(), Unacknowledged: l.unacknowledged, DeadLetters: l.after.dead(),
		InitialStock: l.audit.InitialStock, Confirmed: l.audit.Orders, DatabaseStock: l.audit.Stock,
		Drift: l.drift(), DatabaseDrift: l.audit.Drift(),
		Oversold: l.audit.Oversold(), DuplicateOrders: l.audit.DuplicateOrders(),
		Redis:    standingJSON{Epoch: max(0, l.after.epoch()), Seq: l.after.seq()},
		Database: standingJSON{Epoch: l.database.Epoch},
	}
	for _, seq := range l.database.Seq {
		e.Database.Seq += seq
	}
	if l.after.there() {
		e.RedisStock = new(l.after.stock())
	}
	if len(l.after) > 1 {
		e.Buckets, e.InTransit = bucketsJSON(l), l.after.transit()
	}
	return e
}

func bucketsJSON(l look) []bucketJSON {
	all := make([]bucketJSON, len(l.after))
	for i, b := range l.after {
		all[i] = bucketJSON{Pending: b.pending, Seq: max(0, b.seq), DeadLetters: b.dead}
		if b.stock >= 0 {
			all[i].Stock = new(b.stock)
		}
		if i < len(l.database.Seq) {
			all[i].DatabaseSeq = l.database.Seq[i]
		}
	}
	return all
}

func (r reportJSON) table(out io.Writer) error {
	wrong := 0
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "voucher\tstate\tinitial\t= redis\t+ pending\t- unacked\t+ confirmed\t+ drift\tdatabase\tits drift\tdead\tepoch\tseq\t")
	for _, e := range r.Vouchers {
		redisStock, verdict := "-", ""
		if e.RedisStock != nil {
			redisStock = strconv.FormatInt(*e.RedisStock, 10)
		}
		if !e.Balanced {
			verdict = "does not balance"
			wrong++
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n",
			e.VoucherID, e.State, e.InitialStock, redisStock, e.Pending, e.Unacknowledged, e.Confirmed, e.Drift,
			e.DatabaseStock, e.DatabaseDrift, e.DeadLetters,
			both(e.Redis.Epoch, e.Database.Epoch), both(e.Redis.Seq, e.Database.Seq), verdict)
	}
	fmt.Fprintf(w, "%d of %d vouchers balance\n", len(r.Vouchers)-wrong, len(r.Vouchers))
	if slices.ContainsFunc(r.Vouchers, func(e equationJSON) bool { return e.State == moving }) {
		fmt.Fprintln(w, "moving: read at several moments; drift is what that cannot explain")
	}
	return w.Flush()
}

// both shows what Redis and the database have, once where it is the same.
func both(redis, database int64) string {
	if redis == database {
		return strconv.FormatInt(redis, 10)
	}
	return fmt.Sprintf("%d/%d", redis, database)
}
