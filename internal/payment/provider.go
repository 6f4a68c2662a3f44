package payment

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"seckill/internal/order"
)

// Provider is the client in the words of package order. All its money is of one currency.
type Provider struct {
	client   *Client
	currency string
}

var _ order.PaymentProvider = (*Provider)(nil)

// NewProvider returns a Provider.
func NewProvider(client *Client, currency string) *Provider {
	return &Provider{client: client, currency: currency}
}

// Create implements [order.PaymentProvider].
func (p *Provider) Create(ctx context.Context, r order.PaymentRequest) (order.Payment, error) {
	made, err := p.client.Create(ctx, r.Key, CreatePayment{
		Reference: strconv.FormatInt(r.OrderID, 10), AmountCents: r.AmountCents, Currency: p.currency, ExpiresAt: r.PayBy.UTC(), ReturnURL: r.ReturnTo,
	})
	if err != nil {
		return order.Payment{}, domainError(err)
	}
	return order.Payment{ID: made.ID, URL: made.PayURL, OrderID: r.OrderID, AmountCents: made.AmountCents, PayBy: r.PayBy}, nil
}

// Refund implements [order.PaymentProvider]. A refusal of what the provider has given back already is a success: an
// operator may have done it at the provider.
func (p *Provider) Refund(ctx context.Context, r order.RefundRequest) error {
	_, err := p.client.Refund(ctx, r.Key, r.PaymentID, CreateRefund{AmountCents: r.AmountCents, Currency: p.currency})
	if !errors.Is(err, ErrRefused) {
		return domainError(err)
	}
	if now, lookUp := p.client.Payment(ctx, r.PaymentID); lookUp != nil || now.RefundedCents < now.AmountCents {
		return domainError(errors.Join(err, lookUp))
	}
	return nil
}

// receipt returns the receipt of a payment that was paid. Money in another currency than ours, or with a reference that
// is none of ours, belongs to no order.
func (p *Provider) receipt(now Payment) order.Receipt {
	r := order.Receipt{PaymentID: now.ID, AmountCents: now.AmountCents}
	if now.PaidAt != nil {
		r.At = *now.PaidAt
	}
	if id, err := strconv.ParseInt(now.Reference, 10, 64); err == nil && id > 0 && now.Currency == p.currency {
		r.OrderID = id
	}
	return r
}

// domainError returns an error of the client as one of package order.
func domainError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrRefused):
		return fmt.Errorf("%w: %w", order.ErrPaymentRefused, err)
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("%w: %w", order.ErrPaymentNotFound, err)
	case errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnavailable):
		return fmt.Errorf("%w: %w", order.ErrPaymentUnusable, err)
	}
	return fmt.Errorf("%w: %w", order.ErrPaymentUnavailable, err)
}
