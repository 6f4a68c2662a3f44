// Package voucher defines what is sold: a voucher, its sale window, its stock, and the [Policy] under which it is sold.
// The policy is where this project swaps its locks.
//
// The package knows neither the database nor HTTP. [Store] is the interface that it needs of the database.
package voucher
