package service

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/reconcile"
	"seckill/internal/voucher"
)

// reconcileCommand is the command "api reconcile" with its flags.
type reconcileCommand struct {
	json    bool
	dead    bool  // list the dead letters
	voucher int64 // 0: all
}

var (
	// errUsage means that the arguments of a command make no sense.
	errUsage = errors.New("wrong usage")
	// errUnbalanced is the outcome of the command; the exit code tells it.
	errUnbalanced = errors.New("not all vouchers balance")
)

// parse reads the command's flags and, of the service's settings, the addresses of the stores. The command does not
// serve requests, so it needs no secret.
func (c *reconcileCommand) parse(args, environ []string, help io.Writer) (Config, error) {
	flags := flag.NewFlagSet("api reconcile", flag.ContinueOnError)
	flags.BoolVar(&c.json, "json", false, "print JSON")
	flags.BoolVar(&c.dead, "dead", false, "list the dead letters")
	flags.Func("voucher", "look at this voucher alone", func(v string) (err error) {
		if c.voucher, err = strconv.ParseInt(v, 10, 64); err != nil || c.voucher < 1 {
			return errors.New("want the id of a voucher")
		}
		return nil
	})
	cfg, err := parseSettings(flags, args, environ, help)
	switch {
	case err != nil:
		return cfg, err
	case cfg.MySQLDSN == "" || len(cfg.RedisAddrs) == 0:
		return cfg, errors.New("reconcile needs SECKILL_MYSQL_DSN and SECKILL_REDIS_ADDRS: what an embedded service has, only itself can see")
	}
	return cfg, nil
}

// run prints the stock equation of each voucher. It changes nothing, not even the schema, and can run beside the
// service at any time.
func (c *reconcileCommand) run(ctx context.Context, cfg Config, out, logs io.Writer) (err error) {
	client, err := openRedis(ctx, cfg, nil, retries)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelError}))
	db, err := openDatabase(ctx, cfg, "", log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	return c.report(ctx, NewReconciler(client, db, cfg.keyPrefix()), out)
}

// report prints what the reconciler finds, and returns [errUnbalanced] if it does not add up.
func (c *reconcileCommand) report(ctx context.Context, reconciler *reconcile.Reconciler, out io.Writer) error {
	vouchers, err := reconciler.List(ctx, c.voucher)
	switch {
	case errors.Is(err, voucher.ErrNotFound):
		return fmt.Errorf("%w: there is no voucher %d that is sold by admission", errUsage, c.voucher)
	case err != nil:
		return err
	}
	report, err := reconciler.Report(ctx, vouchers, c.dead)
	if err != nil {
		return err
	}
	if err := c.print(out, report); err != nil {
		return err
	}
	if !report.Balanced {
		return errUnbalanced
	}
	return nil
}

func (c *reconcileCommand) print(out io.Writer, report reconcile.Report) error {
	if c.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	if err := report.PrintTable(out); err != nil || !c.dead {
		return err
	}
	return report.PrintDeadLetters(out)
}

// NewReconciler returns what compares the two stores of the service.
func NewReconciler(client redis.UniversalClient, db *database.DB, prefix string) *reconcile.Reconciler {
	return reconcile.New(reconcile.Config{Client: client, Prefix: prefix, Vouchers: db.AdmissionStore(), Orders: db.Orders()})
}
