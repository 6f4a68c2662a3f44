// Package flawed has the programs of the documents that contain a mistake, so that
// experiments can run them as they stand, beside the project's own.
//
// Some mistakes are in the lock: [Open] returns such a lock. It keeps its keys where the
// mechanism keeps them that it imitates, so the two exclude each other, and the same inspector
// reads both. Others are in the program around the lock: the name of its key, the place of its
// transaction. Those are only names here; the scenarios know what they mean.
//
// The mistakes in the lifecycle of an order are in no document: [Orders] is the programs that make them. Those in taking
// stock were reported for real shops: [Orders.Left] and [Gate]. Those in a waiting room are [Queue], [Window] and
// [BearerPasses].
//
// Nothing but the laboratory imports this package.
package flawed

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// Name names a program with a mistake. "" is none: the project's own program.
type Name string

// Mistakes in the lock.
const (
	// AcquireInsideTry is lock() inside try with unlock() in finally: a caller that was
	// refused releases all the same. Under naive the release is a DEL, under lua it compares.
	AcquireInsideTry Name = "acquire-inside-try"
	// RenewalOnce is the watchdog of Redisson 3.13.6, as four of the documents print it: when a
	// renewal fails, it is logged, and nothing renews the lease again.
	RenewalOnce Name = "renewal-once"
	// RedlockUnchecked is Redlock without its third step: it does not compare the time that the
	// nodes took with the lease.
	RedlockUnchecked Name = "redlock-unchecked"
	// RedlockPatient is Redlock without a time limit for each node.
	RedlockPatient Name = "redlock-patient"
	// RedlockForgetful is Redlock that releases only on the nodes that granted the lock as far
	// as it knows.
	RedlockForgetful Name = "redlock-forgetful"
	// MultiLockTwice is MultiLock as “Redisson in detail” reads it: it takes each lock for twice the wait, and
	// sets the lease that was asked for when it has all.
	MultiLockTwice Name = "multilock-twice"
	// HashLock is the reentrant lock that the documents print: each acquisition sets the lease to what it asks for, and an
	// inner release sets that lease again.
	HashLock Name = "hash-lock"
	// HashLockKeepsEnd is that of “The evolution of Redis locks”: an inner release leaves the lease as it is.
	HashLockKeepsEnd Name = "hash-lock-keeps-end"
)

// Mistakes in the program around the lock.
const (
	// TwoNames is the first listing of “The evolution of Redis locks”: one client locks lock:168, the other one lock.
	TwoNames Name = "two-names"
	// KeyWithoutVoucher is the key of “Redisson in detail”: a prefix and the user.
	KeyWithoutVoucher Name = "key-without-voucher"
	// CallOnThis is a transactional method that is called on this, as in “Redisson in detail”: Spring begins no
	// transaction then, and each statement commits by itself.
	CallOnThis Name = "call-on-this"
	// OneServer is the MultiLock of “Redisson in detail” over three clients of one machine.
	OneServer Name = "one-server"
)

// Mistakes in the lifecycle of an order, which are in no document.
const (
	// StateNotAsked writes an order's next state without asking for the state that it has read before.
	StateNotAsked Name = "state-not-asked"
	// EventNotRecorded does not record which payments were settled: money for a paid order is a second payment.
	EventNotRecorded Name = "event-not-recorded"
	// LatestEventWins gives an order the state of the event that came last.
	LatestEventWins Name = "latest-event-wins"
	// KeyMessage expires an order when Redis says that the order's key has expired.
	KeyMessage Name = "key-message"
	// StockNotAsked has an order paid that has given its unit back, without looking at the stock.
	StockNotAsked Name = "stock-not-asked"
	// GateFirst returns a unit in Redis before the transaction that returns it in the database.
	GateFirst Name = "gate-first"
)

// Mistakes in taking stock. Most of them were reported for real shops.
const (
	// CountThenInsert has no stock: what is left is the initial stock less the orders. It counts, and inserts afterwards.
	CountThenInsert Name = "count-then-insert"
	// StockBeforeUser takes a unit in Redis, and then finds that the user has an order.
	StockBeforeUser Name = "stock-before-user"
	// UserInDatabase asks the database whether the user has an order, while accepted orders are still on their way there.
	UserInDatabase Name = "user-in-database"
	// MessageApart takes a unit in Redis, and sends the order to the worker with another command.
	MessageApart Name = "message-apart"
	// LockedIsSold takes a unit of which the row is not locked (SKIP LOCKED). If there is none it says that all is sold.
	LockedIsSold Name = "locked-is-sold"
	// OwnCounter takes from the counter that a buyer's id chooses, and from no other.
	OwnCounter Name = "own-counter"
	// OneForAll places the orders of several buyers in one transaction, and gives all of them its outcome.
	OneForAll Name = "one-for-all"
	// OwnClock mints ids of a clock, a machine id and a sequence. Nobody sees to it that the machine id is its own, or that
	// the clock goes forward.
	OwnClock Name = "own-clock"
	// StockWritten adds to the stock what was read of it, while it sells.
	StockWritten Name = "stock-written"
	// PausedInRedis pauses a sale in Redis, and does not tell the database.
	PausedInRedis Name = "paused-in-redis"
)

// Mistakes in a waiting room in front of a sale.
const (
	// FirstCome gives the places in the order in which visitors ask at the opening, and keeps them in Redis only.
	FirstCome Name = "first-come"
	// OwnWindow admits so many in each second, counted in Redis for all processes, by the clock of each process.
	OwnWindow Name = "own-window"
	// BearerPass is a signed pass that does not say for whom it is.
	BearerPass Name = "bearer-pass"
	// RateOnly calls so many visitors a second, and asks for nothing else.
	RateOnly Name = "rate-only"
	// CalledHolds keeps a unit for each visitor who is called, whether that one is there or not.
	CalledHolds Name = "called-holds"
)

// Names lists all.
func Names() []Name {
	return []Name{
		AcquireInsideTry, RenewalOnce, RedlockUnchecked, RedlockPatient, RedlockForgetful, MultiLockTwice, HashLock, HashLockKeepsEnd,
		TwoNames, KeyWithoutVoucher, CallOnThis, OneServer,
		StateNotAsked, EventNotRecorded, LatestEventWins, KeyMessage, StockNotAsked, GateFirst,
		CountThenInsert, StockBeforeUser, UserInDatabase, MessageApart, LockedIsSold, OwnCounter, OneForAll, OwnClock, StockWritten, PausedInRedis,
		FirstCome, OwnWindow, BearerPass, RateOnly, CalledHolds,
	}
}

// InLock reports whether the mistake is in the lock.
func (n Name) InLock() bool {
	return slices.Contains([]Name{
		AcquireInsideTry, RenewalOnce, RedlockUnchecked, RedlockPatient, RedlockForgetful, MultiLockTwice, HashLock, HashLockKeepsEnd,
	}, n)
}

// Config is what a lock of this package needs. Those that it does not need may be missing.
type Config struct {
	Prefix string
	Redis  redis.UniversalClient
	Nodes  []*redis.Client
	// NodeTimeout is the time limit of each node. Default 50 ms.
	NodeTimeout time.Duration
	// Watchdog is the lease that is renewed. Default 30 s.
	Watchdog time.Duration
	// Base is the mechanism whose name the lock goes by.
	Base lock.Locker
}

// Open returns the lock of a program that goes by the name of a mechanism.
func Open(name Name, mechanism string, c Config) (lock.Locker, error) {
	switch {
	case name == AcquireInsideTry && (mechanism == "naive" || mechanism == "lua"):
		return &insideTry{Locker: c.Base, client: c.Redis, name: keyOf(c.Prefix, mechanism), compares: mechanism == "lua"}, nil
	case name == RenewalOnce && mechanism == "lua":
		return newRenewedOnce(c), nil
	case name == RedlockUnchecked && mechanism == "red":
		return newRedlock(c, redlock{unchecked: true}), nil
	case name == RedlockPatient && mechanism == "red":
		return newRedlock(c, redlock{patient: true}), nil
	case name == RedlockForgetful && mechanism == "red":
		return newRedlock(c, redlock{forgetful: true}), nil
	case name == MultiLockTwice && mechanism == "multi":
		return newMultiLock(c), nil
	case (name == HashLock || name == HashLockKeepsEnd) && mechanism == "reentrant":
		return &hashLock{client: c.Redis, base: c.Base, name: keyOf(c.Prefix, mechanism), owners: lock.NewOwners(), keepsEnd: name == HashLockKeepsEnd}, nil
	}
	return nil, fmt.Errorf("%w: there is no program %q of the lock %s", lock.ErrInvalid, name, mechanism)
}
