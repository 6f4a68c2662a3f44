package room

import (
	"context"
	"errors"
	"time"

	"seckill/internal/voucher"
)

// The errors of a room. Compare with errors.Is.
var (
	// ErrNoRoom says that a voucher has no waiting room: an order needs no pass.
	ErrNoRoom = errors.New("room: the voucher has no waiting room")
	// ErrNotOpen says that a room gives no tickets yet.
	ErrNotOpen = errors.New("room: not open yet")
	// ErrTicket says that a ticket is not one of the room, or belongs to another user.
	ErrTicket = errors.New("room: not a ticket of this room and user")
	// ErrAddress says that an address has as many tickets in the draw as it may. After the opening it gets more.
	ErrAddress = errors.New("room: the address has enough tickets in the draw")
	// ErrWork says that a ticket needs a proof of work.
	ErrWork = errors.New("room: a proof of work is required")
	// ErrMissing says that Redis has no state of a room.
	ErrMissing = errors.New("room: Redis has no state of it")
)

// NotDrawn is the number of tickets in a draw that has not taken place.
const NotDrawn = -1

// SecretSize is the size of a room's secret, in bytes.
const SecretSize = 32

// Record is what the database has of a room. It outlives Redis.
type Record struct {
	Secret []byte
	// Drawn is how many tickets the draw has put in order, or [NotDrawn].
	Drawn int64
	// Reserved is how many ticket numbers may have been told.
	Reserved int64
	// Serving is up to which position visitors were called, about a second ago.
	Serving int64
}

// Store is the database's side of the rooms.
type Store interface {
	// Room returns the record of a voucher's room. It makes one with a new secret if there is none. The error is
	// [voucher.ErrNotFound] if there is no such voucher.
	Room(ctx context.Context, voucherID int64) (Record, error)
	// Reserve lets so many ticket numbers be told.
	Reserve(ctx context.Context, voucherID, upTo int64) error
	// Draw sets how many tickets the draw has, unless that is set, and returns what it is.
	Draw(ctx context.Context, voucherID, tickets int64) (int64, error)
	// Serve notes up to which position visitors were called, unless more were.
	Serve(ctx context.Context, voucherID, serving int64) error
}

// Sales is what a room needs to know of the sale.
type Sales interface {
	// Left reads how many units can still be sold, not from a cache.
	Left(ctx context.Context, v *voucher.Voucher) (int64, error)
	// Ordered reports whether a user has, or had, an order of a voucher.
	Ordered(ctx context.Context, v *voucher.Voucher, userID int64) (bool, error)
}

// Vouchers reads vouchers cheaply. [voucher.Cache] implements it.
type Vouchers interface {
	Voucher(ctx context.Context, id int64) (*voucher.Voucher, error)
}

// Redis is what Redis has of the rooms. Package ledger implements it. Every call may be repeated. The error is
// [ErrMissing], or [order.ErrUnavailable].
type Redis interface {
	// Restore makes the state of a room from its record, unless there is one. born names the state.
	Restore(ctx context.Context, voucherID int64, born string, r Record, keep time.Duration) error
	// Ticket gives a user a number.
	Ticket(ctx context.Context, c TicketCall) (TicketReply, error)
	// Advance draws, calls the next visitors, and returns the state.
	Advance(ctx context.Context, c AdvanceCall) (State, error)
	// Claim gives a user who is called a pass.
	Claim(ctx context.Context, c ClaimCall) (ClaimReply, error)
	// Spend marks a pass.
	Spend(ctx context.Context, c SpendCall) (SpendVerdict, error)
}

// TicketCall asks for a ticket.
type TicketCall struct {
	VoucherID, UserID int64
	// Shown is the number on a ticket that the user has; -1 for none.
	Shown int64
	// Reserved and Tickets are how many numbers the database has reserved, and how many were told, as far as is known.
	Reserved, Tickets int64
	// Keep is for how long Redis keeps what it has.
	Keep time.Duration
	// Address is where the user is, and PerAddress how many tickets it may have in the draw; 0 for no limit.
	Address    uint64
	PerAddress int64
}

// TicketReply is the answer to a [TicketCall].
type TicketReply struct {
	// Full says that more numbers are to be reserved first.
	Full bool
	// AddressFull says that the address has enough tickets.
	AddressFull bool
	// Number is that of the user's ticket, from 0. Tickets is how many were told.
	Number, Tickets int64
}

// AdvanceCall moves a room on.
type AdvanceCall struct {
	VoucherID int64
	// Begin is when the sale begins, in ms.
	Begin int64
	// Calls says that visitors are called: the sale is neither paused nor over.
	Calls bool
	Rate  int64
	// Drawn is that of the record, or [NotDrawn].
	Drawn int64
	// Tickets, Serving and Reserved are the largest that are known.
	Tickets, Serving, Reserved int64
	Stock                      Stock
	Keep                       time.Duration
}

// Stock is how many units were left, read after so many passes were known to be spent.
type Stock struct {
	Left, Spent int64
	// Born names the state of Redis that Spent is of; "": nothing was read.
	Born string
}

// State is what Redis has of a room.
type State struct {
	// Now is Redis' clock, in ms.
	Now int64
	// Tickets is how many numbers were told, Reserved how many may be.
	Tickets, Reserved int64
	// Drawn is how many tickets the draw has, or [NotDrawn]. It is not certain until the record has it.
	Drawn int64
	// Serving is up to which position visitors are called. It only grows, up to Tickets.
	Serving int64
	// Issued, Spent and Lapsed count passes since this state of Redis was born.
	Issued, Spent, Lapsed int64
	// Share is the part of the called who came lately, Backlog about how many of them wait for a pass.
	Share   float64
	Backlog int64
	// Save says that the record should be told of Serving.
	Save bool
	Born string
}

// ClaimCall asks for a pass.
type ClaimCall struct {
	VoucherID, UserID int64
	// Number is that of the user's ticket, which is called.
	Number  int64
	Rate    int64
	PassFor time.Duration
	Stock   Stock
	Known   Known
	Keep    time.Duration
}

// Known is what the database said of a user whom Redis has forgotten.
type Known string

// What may be known.
const (
	NotAsked  Known = ""
	NoOrder   Known = "n"
	HadOrders Known = "o"
)

// ClaimReply is the answer to a [ClaimCall].
type ClaimReply struct {
	Verdict Verdict
	// Until is when the pass lapses, in ms of Redis' clock; Number is that of its ticket.
	Until, Number int64
}

// Verdict is what became of a claim.
type Verdict int64

// The verdicts. 1 is [ErrMissing].
const (
	Passed     Verdict = 0
	OtherStock Verdict = 2 // the stock was read in another state of Redis
	AwaitsRate Verdict = 3
	AwaitsUnit Verdict = 4
	Spent      Verdict = 5
	Over       Verdict = 6 // the pass has lapsed, or the user has another ticket
	Forgotten  Verdict = 7 // Redis does not know the user: ask the database
)

// SpendCall marks a pass.
type SpendCall struct {
	VoucherID int64
	Pass      Pass
	Verb      Verb
	// Request names the request: another one does not get a pass that is in use.
	Request string
	PassFor time.Duration
}

// Verb is what a pass is marked as.
type Verb string

// The verbs.
const (
	Use    Verb = "use"
	Settle Verb = "spent"
	Free   Verb = "free"
)

// SpendVerdict is what became of a mark.
type SpendVerdict int64

// The verdicts. 1 is [ErrMissing].
const (
	Marked       SpendVerdict = 0
	UnknownPass  SpendVerdict = 2
	LapsedPass   SpendVerdict = 3
	SpentAlready SpendVerdict = 4
)
