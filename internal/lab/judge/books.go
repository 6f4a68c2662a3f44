package judge

import "seckill/internal/order"

// Books are what the database has of the orders of a voucher that asks for payment, and what the payment provider has
// of their money, at the end.
type Books struct {
	Orders   []BookedOrder
	Payments []BookedPayment
}

// BookedOrder is an order in the database. Overdue says that its time to pay is over.
type BookedOrder struct {
	ID      int64
	Status  order.Status
	Overdue bool
}

// BookedPayment is money of a buyer at the provider: Paid says that the provider received it, and Refunded that all
// of it went back.
type BookedPayment struct {
	Order          int64
	Paid, Refunded bool
}

// kept reports whether the provider has the money.
func (p BookedPayment) kept() bool { return p.Paid && !p.Refunded }

// paidForNothing counts the money that the provider keeps and that no order is paid with.
func (b *Books) paidForNothing() (n int) {
	paid := map[int64]bool{}
	for _, o := range b.Orders {
		paid[o.ID] = o.Status == order.Paid
	}
	for _, p := range b.Payments {
		if !p.kept() {
			continue
		}
		if !paid[p.Order] {
			n++
		}
		paid[p.Order] = false // one payment pays for an order
	}
	return n
}

// givenAway counts the paid orders of which the provider has no money.
func (b *Books) givenAway() (n int) {
	kept := map[int64]bool{}
	for _, p := range b.Payments {
		kept[p.Order] = kept[p.Order] || p.kept()
	}
	for _, o := range b.Orders {
		if o.Status == order.Paid && !kept[o.ID] {
			n++
		}
	}
	return n
}

// neverReturned counts the unpaid orders whose time to pay is over.
func (b *Books) neverReturned() (n int) {
	for _, o := range b.Orders {
		if o.Status == order.Unpaid && o.Overdue {
			n++
		}
	}
	return n
}

// returnedTwice counts the vouchers on sale that an order has, or that never were.
func returnedTwice(a order.Audit) int {
	return int(max(0, a.Stock-max(0, a.InitialStock-a.Orders)))
}
