package room

import (
	"context"
	"errors"
	"time"

	"seckill/internal/voucher"
)

// Phase is what a visitor is told.
type Phase string

// The phases.
const (
	NotOpen Phase = "not_open" // no tickets yet
	Drawing Phase = "draw"     // tickets are given; their positions are drawn at the opening
	Waiting Phase = "waiting"
	Called  Phase = "called" // a pass comes as soon as the rate or the stock allows
	HasPass Phase = "pass"
	Ordered Phase = "ordered" // with the pass
	Lapsed  Phase = "lapsed"  // the pass was not used; another ticket queues at the end
	SoldOut Phase = "sold_out"
	Paused  Phase = "paused"
	Ended   Phase = "ended"
)

// Changes reports whether a visitor who waits may be told another phase by and by, without doing anything.
func (p Phase) Changes() bool {
	return p != HasPass && p != Ordered && p != Lapsed && p != Ended
}

// Answer is what a visitor is told. What does not apply is zero.
type Answer struct {
	State Phase
	// Ticket is the text of the ticket that was given.
	Ticket string
	// Number is that of the ticket, from 0; -1 without one. From it and the seed the position can be computed.
	Number int64
	// Position is that of the ticket, from 1; 0 before the draw. Ahead is how many wait in front of it.
	Position, Ahead int64
	// Serving is up to which position visitors are called; Waiting is how many tickets are behind that.
	Serving, Waiting int64
	// Issued, Spent and Lapsed count passes, for everybody; an answer for a ticket has none of them.
	Issued, Spent, Lapsed int64
	// UnitsLeft is the stock; -1 while it is not known.
	UnitsLeft int64
	// Estimate is how long it will likely take until the ticket is called; -1 where that cannot be said.
	Estimate time.Duration
	// PollAfter is when the client should ask again.
	PollAfter time.Duration
	// Commitment is the SHA-256 of the seed, Seed the seed once it was drawn, both in hexadecimal digits.
	Commitment, Seed string
	// Drawn is how many tickets the draw has; -1 before it.
	Drawn int64
	// OpensAt is when the room opens, and then when the sale begins.
	OpensAt time.Time
	// Pass is the text of the pass, which is valid until PassUntil, by Redis' clock: for PassFor from now on.
	Pass      string
	PassUntil time.Time
	PassFor   time.Duration
	// Awaits is what a called visitor waits for: rate, units, or the room itself.
	Awaits string

	called bool // the ticket is called, and a claim tells more
}

// answer returns what memory knows for a ticket; nil for everybody.
func (l *localRoom) answer(v *voucher.Voucher, t *Ticket) Answer {
	seen, now := l.view(), l.clock()
	tickets := max(seen.Tickets, l.known.tickets.Load())
	a := Answer{
		Serving: seen.Serving, Waiting: max(0, tickets-seen.Serving), UnitsLeft: -1, Estimate: -1, Drawn: NotDrawn, Number: -1, Commitment: l.commitment,
	}
	if seen.read {
		a.UnitsLeft = max(0, seen.stock.Left)
	}
	if t != nil {
		a.Number = t.Number
	} else {
		a.Issued, a.Spent, a.Lapsed = seen.Issued, seen.Spent, seen.Lapsed
	}
	positions := l.positions.Load()
	if positions != nil {
		a.Drawn, a.Seed = int64(len(*positions)), l.seed
		if t != nil {
			a.Position = positionOf(*positions, t.Number)
			a.Ahead = max(0, a.Position-seen.Serving-1)
		}
	}
	a.called = t != nil && a.Position > 0 && a.Position <= seen.Serving
	begin := v.BeginAt.UnixMilli()
	switch {
	case now >= v.EndAt.UnixMilli():
		a.State = Ended
	case now < v.OpensAt().UnixMilli():
		a.State, a.OpensAt = NotOpen, v.OpensAt()
	case now < begin || positions == nil:
		a.State, a.OpensAt = Drawing, v.BeginAt
	case v.Paused:
		a.State = Paused
	case seen.soldOut():
		a.State = SoldOut
	case a.called:
		a.State = Called
	default:
		a.State = Waiting
	}
	if a.State == Ended || a.State == NotOpen || a.State == Drawing {
		a.called = false
	}
	if a.State == Waiting && t != nil {
		pace := float64(v.Policy.Room.Rate) / max(seen.Share, 0.05)
		a.Estimate = time.Duration(float64(a.Ahead+1) / pace * float64(time.Second))
	}
	a.PollAfter = l.pollAfter(&a, t, time.Duration(begin-now)*time.Millisecond)
	if a.UnitsLeft >= 0 && a.UnitsLeft <= a.Ahead {
		a.Estimate = -1 // those ahead may take all of them
	}
	return a
}

func positionOf(positions []int32, number int64) int64 {
	if number < int64(len(positions)) {
		return int64(positions[number])
	}
	return number + 1
}

// The bounds of how often a client asks.
const (
	pollNear = time.Second
	pollFar  = 30 * time.Second
)

// pollAfter is when the client should ask again: soon if the turn is near. The visitors are spread, so that they do not ask
// at once.
func (l *localRoom) pollAfter(a *Answer, t *Ticket, untilBegin time.Duration) time.Duration {
	var spread float64 // 0 to 1
	if t != nil {
		spread = float64(uint64(t.User)*0x9e3779b97f4a7c15>>11) / (1 << 53)
	}
	within := func(d time.Duration) time.Duration {
		d = max(pollNear, min(pollFar, d))
		return d - time.Duration(spread*0.3*float64(d))
	}
	switch a.State {
	case Ended:
		return pollFar
	case NotOpen:
		return within(a.OpensAt.Sub(time.UnixMilli(l.clock())))
	case Drawing:
		if untilBegin > pollFar {
			return within(pollFar)
		}
		// The positions are there a moment after the opening.
		return max(0, untilBegin) + pollNear + time.Duration(spread*3*float64(time.Second))
	case Paused, SoldOut:
		return within(5 * time.Second)
	case Waiting:
		return within(a.Estimate / 3)
	}
	return pollNear
}

// claim asks Redis for the pass of a ticket that is called, and completes the answer.
func (l *localRoom) claim(ctx context.Context, v *voucher.Voucher, t Ticket, a *Answer) error {
	config, passFor := &l.service.config, time.Duration(v.Policy.Room.PassS)*time.Second
	call := ClaimCall{VoucherID: l.id, UserID: t.User, Number: t.Number, Rate: v.Policy.Room.Rate, PassFor: passFor, Keep: l.keep(v)}
	if !v.Paused { // without a stock only the pass that there is comes back
		call.Stock = l.view().stock
	}
	reply, err := config.Redis.Claim(ctx, call)
	if err == nil && reply.Verdict == Forgotten {
		ordered, err := config.Sales.Ordered(ctx, v, t.User)
		if err != nil {
			return err
		}
		if call.Known = NoOrder; ordered {
			call.Known = HadOrders
		}
		reply, err = config.Redis.Claim(ctx, call)
		if err != nil {
			return err
		}
	}
	switch {
	case errors.Is(err, ErrMissing):
		a.await("room")
		return l.restore(ctx, v)
	case err != nil:
		return err
	}
	switch reply.Verdict {
	case Passed:
		a.pass(l, Pass{Ticket{t.User, reply.Number}, reply.Until})
	case OtherStock:
		a.await("room")
		if !v.Paused {
			l.kickStore()
		}
	case AwaitsRate:
		a.await("rate")
	case AwaitsUnit:
		a.await("units")
	case Spent:
		a.State = Ordered
	case Over:
		a.State = Lapsed
	}
	return nil
}

// await says what a called visitor waits for, unless that is said already: the sale is paused, or sold out.
func (a *Answer) await(what string) {
	if a.State == Called {
		a.Awaits = what
	}
}

func (a *Answer) pass(l *localRoom, p Pass) {
	a.Pass, a.PassUntil = l.sign.pass(p), time.UnixMilli(p.Until).UTC()
	a.PassFor = time.Duration(max(0, p.Until-l.clock())) * time.Millisecond
	a.PollAfter = max(pollNear, a.PassFor)
	if a.State != Paused {
		a.State = HasPass
	}
}
