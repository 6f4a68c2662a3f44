package service

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"seckill/internal/admission"
	"seckill/internal/admission/ledger"
)

// admissionConfig is the configuration of the admission flow. A zero takes the default of the package that uses it.
type admissionConfig struct {
	MaxPending int64 // orders of a voucher that are accepted and not persisted
	// OrdersPerEntry is how many orders an entry of the stream may have.
	OrdersPerEntry int64
	MaxInFlight    int64 // orders that wait for the gate's decision in this process
	// Instance is the name of this process as a consumer. After ClaimIdle a consumer takes over the entries that
	// another one has not acknowledged.
	Instance  string
	ClaimIdle time.Duration
	// ForgetAfter is how long after the end of its sale a voucher is removed from Redis.
	ForgetAfter time.Duration
}

// The bounds of these settings.
const (
	mostPending  = 10_000_000 // about 2 GB of Redis' memory
	mostInFlight = 1_000_000
	// If ClaimIdle is shorter than a transaction, two processes write the same orders. That is correct, but slow.
	minClaimIdle, maxClaimIdle = time.Second, time.Hour
	// Until a voucher is forgotten, a repeated order is answered from Redis, after that from the database. So the
	// bounds do not affect correctness.
	minForgetAfter, maxForgetAfter, defaultForgetAfter = time.Second, 366 * 24 * time.Hour, 24 * time.Hour
)

func admissionSettings() []setting {
	return []setting{
		{name: "max-pending", arg: "number", usage: fmt.Sprintf("how many orders of a voucher may be accepted and not in the database yet; beyond that buyers are told to come again, 1 to %d (default 100000)", mostPending),
			set: func(c *Config, v string) (err error) {
				c.Admission.MaxPending, err = parseNumber[int64](v, 1, mostPending)
				return err
			}},
		{name: "orders-per-entry", arg: "number", usage: fmt.Sprintf("how many of the orders that are accepted together go through Redis in one entry, 1 to %d (default %d); 1 while processes run that are older than this setting, which reject longer entries", admission.MaxBatch, ledger.DefaultOrdersPerEntry),
			set: func(c *Config, v string) (err error) {
				c.Admission.OrdersPerEntry, err = parseNumber[int64](v, 1, admission.MaxBatch)
				return err
			}},
		{name: "max-in-flight", arg: "number", usage: fmt.Sprintf("how many buyers may wait for this process's decision at a time; beyond that they are told to come again, 1 to %d (default 20000)", mostInFlight),
			set: func(c *Config, v string) (err error) {
				c.Admission.MaxInFlight, err = parseNumber[int64](v, 1, mostInFlight)
				return err
			}},
		{name: "claim-idle", arg: "duration", usage: fmt.Sprintf("how long a process may hold accepted orders without finishing them before another one takes them over, %v to %v (default 30s)", minClaimIdle, maxClaimIdle),
			set: func(c *Config, v string) (err error) {
				c.Admission.ClaimIdle, err = parseDuration(v, "5s or 1m", minClaimIdle, maxClaimIdle)
				return err
			}},
		{name: "forget-after", arg: "duration", usage: fmt.Sprintf("how long after the end of its sale a voucher that was sold by admission is removed from Redis, once all of its orders are in the database and its stock balances, %v to %v (default %v)", minForgetAfter, maxForgetAfter, defaultForgetAfter),
			set: func(c *Config, v string) (err error) {
				c.Admission.ForgetAfter, err = parseDuration(v, "90m or 24h", minForgetAfter, maxForgetAfter)
				return err
			}},
		{name: "instance", arg: "name", usage: "name of this process as a consumer of the streams of accepted orders: no other process has it, and a process that restarts keeps it, to go on at once with its unfinished orders (default: host, process id and a random part)",
			set: func(c *Config, v string) error { c.Admission.Instance = v; return checkInstance(v) }},
	}
}

// checkInstance accepts names that are easy to read and to type in redis-cli, where they are part of the consumer's
// name.
func checkInstance(v string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(v) {
		return errors.New("want 1 to 64 letters, digits, dots, hyphens and underscores")
	}
	return nil
}
