package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// admissionConfig is what the flow admission can be told. A zero takes the default of the
// package that it is for.
type admissionConfig struct {
	MaxPending  int64 // of a voucher, accepted and not persisted
	MaxInFlight int64 // that wait for the gate's answer, in this process
	// Instance names this process among those who persist, ClaimIdle is after what time
	// they take over what another one had in its hands.
	Instance  string
	ClaimIdle time.Duration
}

// The bounds of these settings.
const (
	mostPending  = 10_000_000 // some 2 GB of Redis' memory
	mostInFlight = 1_000_000
	// A claim that is shorter than a transaction has two processes write the same orders,
	// which is right in the end and slow until then.
	minClaimIdle, maxClaimIdle = time.Second, time.Hour
)

func admissionSettings() []setting {
	return []setting{
		{name: "max-pending", arg: "number", usage: fmt.Sprintf("how many orders of a voucher may be accepted and not in the database yet; beyond that buyers are told to come again, 1 to %d (default 100000)", mostPending),
			set: func(c *config, v string) (err error) {
				c.Admission.MaxPending, err = parseBound(v, mostPending)
				return err
			}},
		{name: "max-in-flight", arg: "number", usage: fmt.Sprintf("how many buyers may wait for this process's decision at a time; beyond that they are told to come again (one with an Idempotency-Key has reserved it in the database by then), 1 to %d (default 20000)", mostInFlight),
			set: func(c *config, v string) (err error) {
				c.Admission.MaxInFlight, err = parseBound(v, mostInFlight)
				return err
			}},
		{name: "claim-idle", arg: "duration", usage: fmt.Sprintf("after what time accepted orders that a process has in its hands are taken over by another one, %v to %v (default 30s)", minClaimIdle, maxClaimIdle),
			set: func(c *config, v string) (err error) { c.Admission.ClaimIdle, err = parseClaimIdle(v); return err }},
		{name: "instance", arg: "name", usage: "what this process is called where accepted orders are persisted: another name than that of any other process, and after a restart the same, so that it goes on at once with what it had in its hands (default: host, process id and a random part)",
			set: func(c *config, v string) error { c.Admission.Instance = v; return checkInstance(v) }},
	}
}

func parseBound(v string, most int64) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("want a number from 1 to %d", most)
	}
	return n, nil
}

func parseClaimIdle(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, errors.New("want a duration, such as 5s or 1m")
	}
	if d < minClaimIdle || d > maxClaimIdle {
		return 0, fmt.Errorf("want %v to %v", minClaimIdle, maxClaimIdle)
	}
	return d, nil
}

// checkInstance allows what is easily read and typed in redis-cli: the name is part of a
// consumer's.
func checkInstance(v string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(v) {
		return errors.New("want 1 to 64 letters, digits, dots, hyphens and underscores")
	}
	return nil
}
