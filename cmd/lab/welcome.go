package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
)

// firstExperiment is played by lab without a command. It needs no server, and breaks within a second.
const firstExperiment = "naive-wrong-release"

const greeting = `Welcome to the laboratory. It breaks distributed locks, and shows how.

Here is a first experiment. It needs only Go. The lock is "naive": Redis' SET NX
with an expiry.
`

const farewell = `
Go on:
  go run ./cmd/lab run uuid-looks-first     the same buyers, and the cure
  go run ./cmd/lab run --quiz no-lock       predict the outcome, then see
  go run ./cmd/lab course                   twelve lessons, and three more
`

// welcome plays a first experiment. It runs where lab is called without a command.
func welcome(ctx context.Context, stdout, stderr io.Writer) (err error) {
	all, err := experiments.All()
	if err != nil {
		return err
	}
	first, err := all.Find(firstExperiment)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s%s\n\n", greeting, wrap(first.Arrangement, min(width(stdout), narrow)))
	options := testbed.Defaults()
	options.Embedded = true
	s, err := open(ctx, all, options, 1, i18n.English, stderr)
	if err != nil {
		return err
	}
	r := s.Run(ctx, first)
	if err := s.close(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %w", ctx.Err())
	case r.Failed != "":
		return errors.New(r.Failed)
	case r.Witness == nil || r.Observed != finding.Breaks:
		return fmt.Errorf("%w: %s %s this time", errUnexpected, r.ID, r.Observed)
	}
	r.Witness.Also = nil
	if err := report.Lanes(stdout, *r.Witness, width(stdout), colour(stdout), i18n.English); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\n%s\n", wrap(fmt.Sprintf("%s breaks: %s.", r.ID, anomalies(&r)), width(stdout)))
	_, err = fmt.Fprint(stdout, farewell)
	return err
}
