package payment

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// A refusal of what the provider has given back already is a success: an operator may have done it there.
func TestRefundOfWhatWasGivenBack(t *testing.T) {
	for name, test := range map[string]struct {
		back   int64
		lookUp int // the status of its answer
		want   error
	}{
		"nothing": {0, 200, order.ErrPaymentRefused}, "all but a cent": {7999, 200, order.ErrPaymentRefused}, "all": {8000, 200, nil},
		"not known": {8000, 500, order.ErrPaymentRefused},
	} {
		client := newClient(t, 0, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			p := open()
			p.Status, p.PaidAt, p.RefundedCents = StatusPaid, new(time.Unix(1e9, 0)), test.back
			w.WriteHeader(test.lookUp)
			_ = json.NewEncoder(w).Encode(p)
		})
		err := NewProvider(client, "EUR").Refund(t.Context(), order.RefundRequest{Key: "k", PaymentID: "pay_1", AmountCents: 8000})
		fail.Unless(t, err, test.want, "%s was given back", name)
	}
}

// Money in another currency than ours, or with a reference that is none of ours, belongs to no order.
func TestReceipt(t *testing.T) {
	p, at := NewProvider(nil, "EUR"), time.Unix(1e9, 0)
	for _, test := range []struct {
		reference, currency string
		order               int64
	}{
		{"42", "EUR", 42}, {"1", "EUR", 1}, {"42", "USD", 0}, {"0", "EUR", 0}, {"-1", "EUR", 0}, {"x", "EUR", 0}, {"", "EUR", 0}, {"9223372036854775808", "EUR", 0},
	} {
		paid := Payment{ID: "pay_1", Reference: test.reference, AmountCents: 8000, Currency: test.currency, PaidAt: &at}
		if got, want := p.receipt(paid), (order.Receipt{PaymentID: "pay_1", OrderID: test.order, AmountCents: 8000, At: at}); got != want {
			t.Errorf("%q in %s: %+v, want %+v", test.reference, test.currency, got, want)
		}
	}
}
