// Package finding defines the results of the laboratory: kinds of anomaly, verdicts,
// witnesses, and the result of an experiment, as it is printed and drawn.
package finding

import "seckill/internal/lab/i18n"

// Verdict is the result of an experiment.
type Verdict string

// The verdicts.
const (
	Breaks Verdict = "breaks" // at least one anomaly of the kind that the experiment is about
	Holds  Verdict = "holds"  // none of any kind that the experiment is about
)

// Opposite is the other verdict.
func (v Verdict) Opposite() Verdict {
	if v == Breaks {
		return Holds
	}
	return Breaks
}

// Text is the verdict as a word.
func (v Verdict) Text() i18n.Text {
	switch v {
	case Breaks:
		return i18n.F("verdict|breaks")
	case Holds:
		return i18n.F("verdict|holds")
	}
	return i18n.Plain(string(v))
}

// Kind is a kind of anomaly. [Kinds] says what each one means.
type Kind string

// The kinds.
const (
	Oversold        Kind = "oversold"
	DuplicateOrders Kind = "duplicate_orders"
	LostUpdates     Kind = "lost_updates"
	LostOrders      Kind = "lost_orders"
	LostStock       Kind = "lost_stock"
	PaidForNothing  Kind = "paid_for_nothing"
	GivenAway       Kind = "given_away"
	ReturnedTwice   Kind = "returned_twice"
	NeverReturned   Kind = "never_returned"
	StaleWrites     Kind = "stale_writes"
	Overlaps        Kind = "overlaps"
	WrongReleases   Kind = "wrong_releases"
	StuckKeys       Kind = "stuck_keys"
	LockedOut       Kind = "locked_out"
	TurnedAway      Kind = "turned_away"
	Deadlocks       Kind = "deadlocks"
	FalseAlarms     Kind = "false_alarms"
	Unavailable     Kind = "unavailable"
	Herds           Kind = "herds"
	ExcessCommands  Kind = "excess_commands"
	Inversions      Kind = "inversions"
	Starved         Kind = "starved"
	NeedlessWaits   Kind = "needless_waits"
)

// Info describes a kind of anomaly.
type Info struct {
	Kind  Kind
	Title string // the heading of its column in the report
	Means string // what is counted
}

// In is the description in a language.
func (i Info) In(l i18n.Language) Info {
	i.Title, i.Means = i18n.Key(i.Title).In(l), i18n.Key(i.Means).In(l)
	return i
}

// Counted names the kind and how often it was seen.
func (i Info) Counted(n int) i18n.Text { return i18n.F("%s %d", i18n.Key(i.Title), n) }

// Kinds lists every kind of anomaly, the gravest first.
func Kinds() []Info {
	return []Info{
		{Oversold, "oversold", "orders in the database beyond the initial stock"},
		{DuplicateOrders, "duplicates", "orders in the database beyond one per user"},
		{LostUpdates, "lost updates", "committed writes of the stock, computed from a value that another commit had replaced"},
		{LostOrders, "lost orders", "orders that a buyer was told are placed and that the database does not have"},
		{LostStock, "lost stock", "vouchers that were taken from the stock and for which the database has no order"},
		{PaidForNothing, "paid for nothing", "payments that the provider keeps, of orders that have no voucher"},
		{GivenAway, "given away", "vouchers of paid orders whose money was not received, or went back"},
		{ReturnedTwice, "returned twice", "vouchers on sale beyond those that no order has"},
		{NeverReturned, "never returned", "vouchers of unpaid orders whose time to pay is over"},
		{StaleWrites, "stale writes", "writes committed by a holder after the lock had been granted to the next one"},
		{Overlaps, "two holders", "grants of a key while an earlier holder still believed to hold it"},
		{WrongReleases, "wrong releases", "holders whose lock was deleted by somebody else's release before their lease was over"},
		{StuckKeys, "stuck keys", "keys that stay taken in the store though nobody alive holds them"},
		{LockedOut, "locked out", "buyers turned away by the lock of a holder that had released it"},
		{TurnedAway, "turned away", "buyers told to come again who would have got a voucher, had they waited"},
		{Deadlocks, "deadlocks", "owners that waited for themselves"},
		{FalseAlarms, "false alarms", "holders that lost the lock though they were alive and renewed it"},
		{Unavailable, "unavailable", "acquisitions that failed because a server was down"},
		{Herds, "herds", "releases that woke more than one waiter"},
		{ExcessCommands, "excess commands", "commands that the store was sent beyond ten for each grant"},
		{Inversions, "inversions", "pairs of waiters served in the wrong order"},
		{Starved, "starved", "waiters that were not served while later ones were"},
		{NeedlessWaits, "needless waits", "readers that had to wait for another reader"},
	}
}
