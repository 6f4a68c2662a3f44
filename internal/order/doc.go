// Package order places orders.
//
// The locked flow, step by step, is [Service.Place]: load the voucher, look at
// the window and the stock, take the lock, ask whether the user has one already,
// take one from the stock and write the order in one transaction, commit, and
// only then release. The voucher's policy can put the steps in a worse order or
// leave some out; the names in the policy say so.
//
// It knows neither gorm, Redis nor gin: [Store], [IDs] and [Lockers] are what it
// needs of them.
package order
