package admission

import (
	"context"

	"seckill/internal/order"
)

// audit sums up what Redis holds of the voucher. A voucher that is not open has an audit only if it was never opened or
// is forgotten: then Redis holds no part of its stock.
func (v *voucherState) audit(ctx context.Context) (order.GateAudit, error) {
	all := v.states(ctx)
	switch err := firstError(all); {
	case err != nil && ctx.Err() != nil:
		return order.GateAudit{}, ctx.Err()
	case err != nil:
		return order.GateAudit{}, unavailable(err)
	}
	sum, open := order.GateAudit{Epoch: all[0].Epoch}, true
	for i := range all {
		open = open && all[i].Open() && all[i].Epoch == sum.Epoch
		sum.Stock += all[i].Share()
		sum.Pending += all[i].Pending
		sum.Seq += all[i].Seq
		sum.Returned += all[i].Arrived
	}
	if open {
		return sum, nil
	}
	st, err := v.config.Store.EpochState(ctx, v.id)
	switch {
	case err != nil:
		return order.GateAudit{}, err
	case neverOpened(st.Epoch), st.Forgotten:
		return order.GateAudit{Stock: st.Stock, Returned: st.Returned, Epoch: st.Epoch}, nil
	}
	return order.GateAudit{}, unavailable(errOpening)
}
