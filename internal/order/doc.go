// Package order places orders.
//
// A voucher is sold by one of two flows:
//
//	locked     [Service.Place] loads the voucher, checks the sale window and the stock, and acquires
//	           the lock. One transaction then checks that the user has no order yet, decrements the
//	           stock and inserts the order. The transaction commits before the lock is released.
//	           The voucher's policy can reorder these steps or leave some out, so that a workshop
//	           can watch what goes wrong.
//	admission  [Gate.Admit] decides, in one place for all processes. A worker persists what the gate
//	           accepted, through a store of package contract. Until then the order is [Pending]; afterwards
//	           it is [Confirmed] or, for a reason that only the database knew, [Rejected].
//
// # An order's lifecycle
//
// A voucher may ask for payment. Then its order is not confirmed but unpaid, and [Lifecycle] moves it on.
// docs/architecture.md (An order's states) draws the states.
//
// The table in states.go has each step and who takes it. Each is one conditional statement of the database, in the
// transaction that also does what follows from it ([LifecycleStore]). An order that is confirmed, unpaid or paid has a
// unit. In all other states it has given its unit back, once.
//
// Money that arrives for an order that is cancelled or expired takes a unit again, if there is one and the user has no
// other order. Otherwise it is refunded. Under the locked flow one transaction decides that. Under the admission flow
// the gate has the stock: the money is [LateUndecided] until the gate has reserved a unit and a worker has written it,
// or the money goes back (LateStore, in package contract). No money is dropped: what belongs to no order is kept.
//
// The package knows neither gorm, Redis nor gin. [Store], [LifecycleStore], [Gate], [PaymentProvider], [IDs] and
// [Lockers] are the interfaces that it needs of them.
//
// To copy the locked flow, take locked.go and leave faults.go behind: that file lets the laboratory fail an order at
// named points, by wrapping the store and the lock, and the flow does not refer to a single one of those points.
package order
