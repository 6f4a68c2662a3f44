// Package voucher says what is on sale: a voucher, the window in which it can be
// bought, its stock, and the [Policy] it is sold under, which is where this
// project's locks are swapped.
//
// It knows neither the database nor HTTP. [Store] is what it needs of the one;
// the other only translates.
package voucher
