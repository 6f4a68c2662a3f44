package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"seckill/internal/database"
	"seckill/internal/pairing"
)

// adoptCommand is the command "api adopt".
type adoptCommand struct{}

// parse reads the addresses of the stores. The command does not serve requests, so it needs no secret.
func (adoptCommand) parse(args, environ []string, help io.Writer) (Config, error) {
	cfg, err := parseSettings(flag.NewFlagSet("api adopt", flag.ContinueOnError), args, environ, help)
	switch {
	case err != nil:
		return cfg, err
	case cfg.MySQLDSN == "" || len(cfg.RedisAddrs) == 0:
		return cfg, errors.New("adopt needs SECKILL_MYSQL_DSN and SECKILL_REDIS_ADDRS: what an embedded service has belongs together")
	}
	return cfg, nil
}

// run makes the two stores a pair. Instances that were refused go on by themselves then.
func (adoptCommand) run(ctx context.Context, cfg Config, out, logs io.Writer) (err error) {
	client, err := openRedis(ctx, cfg, nil, retries)
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
	return adopt(ctx, newPairing(cfg, client, db, log), cfg, out)
}

func adopt(ctx context.Context, pair *pairing.Pairing, cfg Config, out io.Writer) error {
	fmt.Fprintf(out, "database %s and Redis %s: looking whether an instance uses one of them\n", database.NameOf(cfg.MySQLDSN), cfg.redisName())
	adopted, err := pair.Adopt(ctx)
	switch {
	case err != nil:
		return err
	case !adopted:
		fmt.Fprintln(out, "they are a pair already")
	default:
		fmt.Fprintln(out, "they are a pair now; vouchers are rebuilt from the database when they are sold next")
	}
	return nil
}
