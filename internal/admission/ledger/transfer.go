package ledger

import (
	"context"
	_ "embed" // the scripts
)

var (
	//go:embed give.lua
	giveSource string
	//go:embed take.lua
	takeSource string
)

// Transfer is the reply of give.lua and take.lua.
type Transfer struct {
	// Verdict is [Decided] or [Closed].
	Verdict Verdict
	// Amount is what was taken in, or the total that was given.
	Amount int64
	// Seq is the bucket's from now on.
	Seq int64
}

// Give has a bucket give half of its stock to another bucket. Without more it gives nothing and only returns the total
// that it has given. Where replicas are waited for, they have that total when Give returns: if one of them is promoted,
// stock that has arrived in the other bucket is not on sale in this one again.
func (l *Ledger) Give(ctx context.Context, keys Keys, epoch int64, to int, more bool) (Transfer, error) {
	amount := 0
	if more {
		amount = 1
	}
	return parseTransfer(l.runAcknowledged(ctx, l.scripts.give, []any{"", "", 1, keys.Meta, epoch, to, amount}))
}

// Take has a bucket add to its stock what another bucket has given to it, up to a total.
func (l *Ledger) Take(ctx context.Context, keys Keys, epoch int64, from int, total int64) (Transfer, error) {
	return parseTransfer(l.run(ctx, l.scripts.take, []any{"", "", 1, keys.Meta, epoch, from, total}))
}

func parseTransfer(reply []any, err error) (Transfer, error) {
	if err != nil {
		return Transfer{}, err
	}
	switch n := numbers(reply); {
	case len(n) == 1 && Verdict(n[0]) == Closed:
		return Transfer{Verdict: Closed}, nil
	case len(n) == 3 && Verdict(n[0]) == Decided:
		return Transfer{Amount: n[1], Seq: n[2]}, nil
	}
	return Transfer{}, unexpected(reply)
}
