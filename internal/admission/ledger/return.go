package ledger

import (
	"context"
	_ "embed" // the script

	"seckill/internal/admission/contract"
)

//go:embed return.lua
var returnSource string

// Return has a bucket take back the stock of orders that have given their units back in the database. The transfer's
// Amount is what was added to the stock. Return waits for no replica: the database knows which returns the bucket was
// told of, and a primary that lacks one has a smaller total.
func (l *Ledger) Return(ctx context.Context, keys Keys, r contract.Return) (Transfer, error) {
	args := make([]any, 0, 7+4*len(r.Orders))
	args = append(args, "", "", 2, keys.Meta, keys.Users, r.Epoch, r.Total)
	for _, o := range r.Orders {
		args = append(args, o.UserID, Reserved(o.ID, o.Key))
		if o.Late { // unless the voucher was rebuilt since
			args = append(args, o.UserID, ReservedLate(o.ID, o.Key))
		}
	}
	return parseTransfer(l.run(ctx, l.scripts.giveBack, args))
}
