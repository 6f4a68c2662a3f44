package admission

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
)

// Returner tells Redis of stock that orders have given back in the database. Every process runs one, and none of them
// is special: the calls may be repeated, by any of them.
//
// A process may die at any moment, and so may the servers:
//
//	the transaction commits            the stock is in the database, and a row says that Redis is to be told
//	Redis is told                      the stock is on sale; a repetition adds nothing
//	the row is deleted                 a Redis that forgets the return has a smaller total than the database,
//	                                   and the voucher is rebuilt
//	the voucher is rebuilt meanwhile   the next epoch begins with the stock, and the row is deleted
type Returner struct {
	gate  *Gate
	store contract.ReturnStore
}

// Returner returns a returner for the gate's vouchers.
func (g *Gate) Returner(store contract.ReturnStore) *Returner {
	return &Returner{gate: g, store: store}
}

const (
	// returnEvery is how often the database is asked for stock that was given back.
	returnEvery = 200 * time.Millisecond
	// returnsPerPage is how many buckets are read at once, and returnsAtOnce how many are told at the same time: a
	// bucket that does not answer must not delay the others.
	returnsPerPage = 200
	returnsAtOnce  = 8
)

// Run returns stock until ctx ends.
func (r *Returner) Run(ctx context.Context) {
	for failing := false; ; {
		told, err := r.Round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			r.gate.config.Log.Warn("stock that was given back is not on sale yet, trying again", "error", err)
		}
		failing = err != nil
		if told > 0 && err == nil {
			continue // more may have been given back meanwhile
		}
		if !sleep(ctx, returnEvery) {
			return
		}
	}
}

// Round tells each bucket once, and returns how many took stock back. A voucher that is closed is told in a later
// round, unless it has been rebuilt by then. If a bucket cannot be told, a later round tries again, and the error says
// why.
func (r *Returner) Round(ctx context.Context) (told int, failed error) {
	if err := r.gate.config.paired(); err != nil {
		return 0, err
	}
	for after, more := (contract.Return{}), true; more && ctx.Err() == nil; {
		var page []contract.Return
		var err error
		inStore, cancel := context.WithTimeout(ctx, storeTimeout)
		page, more, err = r.store.Returns(inStore, after, returnsPerPage)
		cancel()
		if err != nil {
			return told, cmp.Or(failed, err)
		}
		if len(page) > 0 { // otherwise the store has forgotten all of it, and the same place has others now
			after = page[len(page)-1]
		}
		n, err := r.tellAll(ctx, page)
		told += n
		failed = cmp.Or(failed, err)
	}
	return told, failed
}

// tellAll tells some buckets, and returns how many took stock back. If others failed, it returns one of their errors.
func (r *Returner) tellAll(ctx context.Context, due []contract.Return) (told int, err error) {
	took := make([]bool, len(due))
	var group errgroup.Group
	group.SetLimit(returnsAtOnce)
	for i, one := range due {
		group.Go(func() (err error) {
			took[i], err = r.tell(ctx, one)
			return err
		})
	}
	err = group.Wait()
	for _, is := range took {
		if is {
			told++
		}
	}
	return told, err
}

func (r *Returner) tell(ctx context.Context, one contract.Return) (took bool, err error) {
	calling, cancel := context.WithTimeout(ctx, r.gate.config.AttemptTimeout)
	done, err := r.gate.ledger.Return(calling, ledger.KeysOf(r.gate.config.Prefix, one.VoucherID, one.Bucket), one)
	cancel()
	if err != nil || done.Verdict != ledger.Decided {
		return false, err
	}
	if v := r.gate.known(one.VoucherID); v != nil && one.Bucket < len(v.buckets) {
		v.buckets[one.Bucket].observeSeq(one.Epoch, done.Seq)
		v.clearSoldOut() // other processes learn of it when they ask Redis again
	}
	inStore, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err = r.store.Returned(inStore, one, done.Seq)
	return err == nil, err
}
