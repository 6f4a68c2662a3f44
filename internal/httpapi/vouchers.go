package httpapi

import (
	"context"
	"net/http"
	"time"

	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// voucherJSON is a voucher as clients see it.
type voucherJSON struct {
	ID           string         `json:"id"`
	Title        string         `json:"title"`
	PriceCents   int64          `json:"price_cents"`
	ValueCents   int64          `json:"value_cents"`
	Stock        int64          `json:"stock"`
	InitialStock int64          `json:"initial_stock"`
	Paused       bool           `json:"paused"`
	Revision     int64          `json:"revision"`
	BeginAt      time.Time      `json:"begin_at"`
	EndAt        time.Time      `json:"end_at"`
	PayWithinS   int64          `json:"pay_within_s,omitempty"`
	ReturnsAt    time.Time      `json:"returns_at,omitzero"`
	Policy       voucher.Policy `json:"policy"`
	CreatedAt    time.Time      `json:"created_at"`
}

func newVoucherJSON(v *voucher.Voucher) voucherJSON {
	return voucherJSON{
		ID: formatID(v.ID), Title: v.Title, PriceCents: v.PriceCents, ValueCents: v.ValueCents,
		Stock: v.Stock, InitialStock: v.InitialStock, Paused: v.Paused, Revision: v.Revision, BeginAt: v.BeginAt.UTC(), EndAt: v.EndAt.UTC(),
		PayWithinS: int64(v.PayWithin / time.Second), ReturnsAt: v.ReturnsAt, Policy: v.Policy, CreatedAt: v.CreatedAt.UTC(),
	}
}

// createVoucher is POST /api/v1/vouchers.
func (a *API) createVoucher(ctx context.Context, r *request) (reply, error) {
	body, err := r.readJSON()
	if err != nil {
		return reply{}, err
	}
	v, err := decodeVoucher(body)
	if err != nil {
		return reply{}, err
	}
	return a.runOnce(ctx, r, body, idempotentOperation{run: func(ctx context.Context, at attempt) (reply, error) {
		v.ID = at.id // Create itself finds the voucher of an earlier attempt
		created, err := a.deps.Vouchers.Create(ctx, v)
		if err != nil {
			return reply{}, err
		}
		out, err := a.render(http.StatusCreated, newVoucherJSON(created))
		out.location = "/api/v1/vouchers/" + formatID(created.ID)
		return out, err
	}})
}

// showVoucher is GET /api/v1/vouchers/{id}.
func (a *API) showVoucher(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	v, err := a.deps.Vouchers.Voucher(ctx, id)
	if err != nil {
		return reply{}, err
	}
	out, err := cachedReply(a, &a.rendered.vouchers, id, v, func() any { return newVoucherJSON(v) })
	out.etag = etagOf(v)
	return out, err
}

// decodeVoucher reads a new voucher. Missing members have their defaults. The domain validates the values.
func decodeVoucher(body []byte) (voucher.Voucher, error) {
	v := voucher.Voucher{Policy: voucher.DefaultPolicy()}
	err := decodeObject(body, func(o *object) {
		o.text("title", &v.Title)
		o.integer("price_cents", &v.PriceCents)
		o.integer("value_cents", &v.ValueCents)
		o.integer("stock", &v.InitialStock)
		o.time("begin_at", &v.BeginAt)
		o.time("end_at", &v.EndAt)
		o.seconds("pay_within_s", &v.PayWithin)
		o.object("policy", func(o *object) { decodePolicy(o, &v.Policy) })
	})
	return v, err
}

func decodePolicy(o *object, p *voucher.Policy) {
	o.text("flow", (*string)(&p.Flow))
	o.text("lock", &p.Lock)
	o.text("scope", (*string)(&p.Scope))
	o.text("placement", (*string)(&p.Placement))
	o.text("stock", (*string)(&p.Stock))
	o.boolean("unique", &p.Unique)
	o.integer("lock_ttl_ms", &p.LockTTLMS)
	o.integer("lock_wait_ms", &p.LockWaitMS)
	o.integer("fault_seed", &p.FaultSeed)
	o.count("buckets", &p.Buckets)
	if _, given := o.members["room"]; given {
		p.Room = &voucher.Room{}
		o.object("room", func(o *object) {
			o.integer("rate", &p.Room.Rate)
			o.integer("draw_s", &p.Room.DrawS)
			o.integer("pass_s", &p.Room.PassS)
			o.integer("per_address", &p.Room.PerAddress)
			o.integer("work_bits", &p.Room.WorkBits)
		})
	}
	o.array("faults", func(o *object) {
		var f lock.Fault
		o.text("point", (*string)(&f.Point))
		o.text("effect", (*string)(&f.Effect))
		o.integer("pause_ms", &f.PauseMS)
		o.number("probability", &f.Probability)
		p.Faults = append(p.Faults, f)
	})
}
