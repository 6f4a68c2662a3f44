package payment

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/order"
)

const (
	// pollEvery is how often the database is asked for refunds and look-ups that are due.
	pollEvery = 500 * time.Millisecond
	// batch is how many are read at once, parallel how many calls of the provider run at once.
	batch    = 100
	parallel = 8
	// claimFor is the time that a process has for a look-up before another one may do it: longer than a call may take.
	// So long the look-ups wait that a process was about to make when it was killed.
	claimFor = 15 * time.Second
	// countEvery is how often the money that belongs to no order is counted.
	countEvery = 10 * time.Second
)

// Run carries out refunds and looks payments up until ctx ends. Every process runs it.
//
// The rows of refunds that are due are the outbox of calls: a row is there before its call is made, and goes once the
// provider has confirmed it. A process that dies in between leaves the row, and the call is repeated under the same
// key. Two processes may make the same call at the same time; the key makes one refund of them.
func (s *Settlements) Run(ctx context.Context) {
	counted := time.Time{}
	failing := false
	for ctx.Err() == nil {
		err := errors.Join(s.refundDue(ctx), s.lookUpDue(ctx))
		if now := time.Now(); now.Sub(counted) >= countEvery {
			counted = now
			payments, cents, unmatched := s.Store.UnmatchedPayments(ctx)
			if unmatched == nil {
				s.Observer.Unmatched(payments, cents)
			}
			err = errors.Join(err, unmatched)
		}
		if err != nil && !failing && ctx.Err() == nil {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "refunds and look-ups wait for the database", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// refundDue carries out the refunds that are due. Its error is the store's: a refund that fails is due again.
func (s *Settlements) refundDue(ctx context.Context) error {
	next, after, still := s.retries.next(), "", 0
	for more := true; more; {
		due, err := s.Store.DueRefunds(ctx, after, batch)
		if err != nil {
			return err // the pauses of before still count
		}
		var calls errgroup.Group
		calls.SetLimit(parallel)
		results := make([]error, len(due))
		tried := make([]bool, len(due))
		for i, r := range due {
			if tried[i] = s.retries.ready(r.PaymentID, time.Now()); tried[i] {
				calls.Go(func() error { results[i] = s.refund(ctx, r); return nil })
			}
		}
		_ = calls.Wait() // the errors are in results
		for i, r := range due {
			after = r.PaymentID
			switch {
			case !tried[i]:
				next.keep(r.PaymentID, s.retries.of[r.PaymentID])
			case results[i] != nil:
				next.keep(r.PaymentID, s.retries.of[r.PaymentID].next(time.Now()))
			default:
				continue
			}
			still++
		}
		more = len(due) == batch && ctx.Err() == nil
	}
	s.retries = next
	s.Observer.Due(still)
	return nil
}

// refund carries out one refund.
func (s *Settlements) refund(ctx context.Context, r order.RefundRequest) error {
	err := s.Provider.Refund(ctx, r)
	if err == nil {
		err = s.Store.MarkRefunded(ctx, r.PaymentID)
	}
	if ctx.Err() != nil {
		return err
	}
	s.Observer.Refund(err)
	if errors.Is(err, ErrRefused) || errors.Is(err, order.ErrPaymentNotFound) {
		s.Log.LogAttrs(ctx, slog.LevelError, "the provider refuses to refund: somebody has to look",
			slog.String("payment", r.PaymentID), slog.Int64("cents", r.AmountCents), slog.Any("error", err))
	}
	return err
}

// lookUpDue looks up the payments that are due.
func (s *Settlements) lookUpDue(ctx context.Context) error {
	due, err := s.Store.DueLookups(ctx, time.Now(), batch)
	if err != nil {
		return err
	}
	var calls errgroup.Group
	calls.SetLimit(parallel)
	for _, one := range due {
		calls.Go(func() error { return s.lookUp(ctx, one) })
	}
	return calls.Wait()
}

// lookUp looks one payment up. Its error is the store's.
func (s *Settlements) lookUp(ctx context.Context, one order.Lookup) error {
	claimed := one
	claimed.Due = time.Now().Add(claimFor)
	if mine, err := s.Store.PostponeLookup(ctx, one, claimed.Due); err != nil || !mine {
		return err
	}
	now, lookUp := s.Provider.client.Payment(ctx, one.PaymentID)
	next := order.NextLookup(time.Now(), one.PayBy)
	if lookUp == nil {
		if err := s.apply(ctx, now); err != nil && !errors.Is(err, ErrMalformed) {
			return err // the claim runs out
		}
		if now.Final() {
			next = time.Time{}
		}
	}
	s.Observer.Lookup(lookUp)
	_, err := s.Store.PostponeLookup(ctx, claimed, next)
	return err
}

// maxRetries is the most refunds whose failures are remembered one by one, about 100 bytes each.
const maxRetries = 100_000

// retries says when what has failed is to be tried again. Refunds that it has no room for are tried together.
type retries struct {
	limit int
	of    map[string]retry // by payment
	// rest is when refunds that are not in the map are tried; the zero time if it has all.
	rest time.Time
}

func newRetries(limit int) retries { return retries{limit: limit, of: map[string]retry{}} }

// next returns the retries of the next pass, still empty.
func (r retries) next() retries {
	n := newRetries(r.limit)
	if now := time.Now(); now.Before(r.rest) {
		n.rest = r.rest
	}
	return n
}

// keep remembers a refund that is still due.
func (r *retries) keep(id string, one retry) {
	switch {
	case len(r.of) < r.limit && one.failed > 0:
		r.of[id] = one
	case r.rest.IsZero():
		r.rest = time.Now().Add(longestRetry)
	}
}

type retry struct {
	failed int
	at     time.Time
}

// The pauses between two attempts double from the first to the longest.
const (
	firstRetry   = 500 * time.Millisecond
	longestRetry = time.Minute
)

func (r retries) ready(id string, now time.Time) bool {
	if one, known := r.of[id]; known {
		return !now.Before(one.at)
	}
	return !now.Before(r.rest)
}

// next is the retry after another failure.
func (r retry) next(now time.Time) retry {
	return retry{failed: r.failed + 1, at: now.Add(min(longestRetry, firstRetry<<min(r.failed, 10)))}
}
