// Package order places orders.
//
// The locked flow, step by step, is [Service.Place]: load the voucher, look at
// the window and the stock, take the lock, ask whether the user has one already,
// take one from the stock and write the order in one transaction, commit, and
// only then release. The voucher's policy can put the steps in a worse order or
// leave some out; the names in the policy say so.
//
// The admission flow has one step, [Gate.Admit]: decided in one place for all
// processes, and persisted behind it by whoever reads what the gate accepted and
// gives it to the [Shelf]. Until then the order is [Pending]; in the end it is
// [Confirmed] or, where the database has a reason that the gate did not know,
// [Rejected].
//
// It knows neither gorm, Redis nor gin: [Store], [Shelf], [Gate], [IDs] and [Lockers]
// are what it needs of them.
package order
