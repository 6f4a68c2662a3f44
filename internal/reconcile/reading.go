package reconcile

import (
	"slices"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
)

// Reading is one reading of a voucher: Redis, the database, and Redis again.
type Reading struct {
	voucherID     int64
	before, after buckets
	database      contract.EpochState
	// audit is the count of the orders in the database; nil if they were not counted.
	audit *order.Audit
	// unacknowledged counts the entries in the streams that are confirmed already. They are counted only if that may
	// explain a drift.
	unacknowledged int64
}

// State says what a reading can be judged by.
type State string

// The states.
const (
	// NeverOpened: Redis has no part in the sale yet.
	NeverOpened State = "never opened"
	// Forgotten: the voucher's data was removed from Redis, or is about to be.
	Forgotten State = "forgotten"
	// Closed: the voucher is being rebuilt from the database, or will be for the next buyer.
	Closed State = "closed"
	// Moving: orders were decided or acknowledged during the reading.
	Moving State = "moving"
	// AtRest: nothing changed during the reading.
	AtRest State = "at rest"
)

// State returns the state of the voucher during the reading.
func (l Reading) State() State {
	switch {
	case l.database.Forgotten:
		return Forgotten
	case l.database.Epoch <= 1:
		return NeverOpened
	case !l.database.Open() || !l.before.at(l.database.Epoch) || !l.after.open(l.database.Epoch):
		return Closed
	case !slices.Equal(l.before, l.after):
		return Moving
	}
	return AtRest
}

// Balanced reports whether the voucher balances.
func (l Reading) Balanced() bool {
	if l.drift() != 0 || l.behind() || l.ahead() {
		return false
	}
	return l.audit == nil || l.audit.Drift() == 0 && l.audit.Oversold() == 0 && l.audit.DuplicateOrders() == 0
}

// drift is by how much Redis disagrees with the database's stock. Above 0, there is stock that nobody can buy. Below 0,
// the gate can accept orders that the database will refuse. See the package's documentation for why two readings of
// Redis bound it.
func (l Reading) drift() int64 {
	if s := l.State(); s == NeverOpened || s == Forgotten || s == Closed {
		return 0
	}
	own := l.database.Stock - l.database.Returned
	least := own - l.before.own() - l.before.pending()
	most := own - l.after.own() - l.after.pending()
	switch {
	case least > 0:
		return least
	case most < 0:
		return min(0, most+l.unacknowledged)
	}
	return 0
}

// unsellable is the stock in the database that nobody can buy. The gate sells the stock with which it opened the
// voucher, so what is added in the database afterwards is among it.
func (l Reading) unsellable() int64 { return max(0, l.drift()) }

// returning is what orders gave back in the database and what has not arrived in Redis.
func (l Reading) returning() int64 {
	return l.database.Returned - (l.after.stock() - l.after.own())
}

// behind reports whether the database has persisted a later decision of a bucket than Redis has, although Redis was
// read later.
func (l Reading) behind() bool {
	if s := l.State(); s != Moving && s != AtRest {
		return false
	}
	for b, seq := range l.database.Seq {
		if b < len(l.after) && l.after[b].seq < seq {
			return true
		}
	}
	return false
}

// ahead reports whether a bucket has a later epoch than the database, which was read later: the database was restored
// from older data, or an older copy of it took over. The next opening of the voucher closes it above that epoch.
func (l Reading) ahead() bool { return l.before.latestEpoch() > l.database.Epoch }

// imbalance is by how many orders Redis and the database disagree, and the database with itself. It can be 0 although
// the reading is not balanced, where Redis is behind.
func (l Reading) imbalance() int64 {
	n := max(l.drift(), -l.drift())
	if l.audit != nil {
		n += max(l.audit.Drift(), -l.audit.Drift()) + l.audit.Oversold() + l.audit.DuplicateOrders()
	}
	return n
}

// same reports whether nothing at all happened between two readings.
func (l Reading) same(other Reading) bool {
	return slices.Equal(l.before, other.before) && slices.Equal(l.after, other.after) &&
		l.database.Epoch == other.database.Epoch && l.database.Stock == other.database.Stock && l.database.Returned == other.database.Returned &&
		slices.Equal(l.database.Seq, other.database.Seq) && l.unacknowledged == other.unacknowledged
}
