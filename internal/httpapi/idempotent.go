package httpapi

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"seckill/internal/idempotency"
	"seckill/internal/order"
)

const (
	// staleAfter is when a repetition may take over from an attempt that has not answered. It is short, so that a
	// client does not wait long after its attempt died. An attempt can live longer than that, so two attempts can run
	// at once. They do not harm each other: both create under the same reserved id, which the database accepts only
	// once, and the later one knows that it resumes and looks for what the earlier one created. But neither may then
	// store a refusal for the other; see storeOutcome.
	staleAfter = 10 * time.Second
	// recordTimeout bounds the storing of an answer, which continues after the client has hung up.
	recordTimeout = 3 * time.Second
)

// attempt is one attempt to carry out a request.
type attempt struct {
	// id is the id that is reserved for what the request creates; 0 without an idempotency key.
	id int64
	// resumed says that an earlier attempt may have created it already.
	resumed bool
	// key is the request's key, if what the request creates keeps it; 0 otherwise.
	key order.KeyHash
}

// idempotentOperation is an operation that a request with an idempotency key carries out once.
type idempotentOperation struct {
	run func(context.Context, attempt) (reply, error)
	// keepsKey reports whether what the request creates keeps its key itself. It is then the record of the key: run is
	// given the key and finds what an earlier request created. The field may be nil: nothing does.
	keepsKey func(context.Context) (bool, error)
	// cachedRefusal returns the error with which run would refuse a first attempt, if it is known without writing
	// anything; otherwise nil. The field may be nil.
	cachedRefusal func(context.Context) error
}

// runOnce runs the operation, unless the request's Idempotency-Key has an answer already, which it then returns.
// Without a key it only runs the operation.
//
// The payload is the part of the request that is not in its address.
func (a *API) runOnce(ctx context.Context, r *request, payload []byte, op idempotentOperation) (reply, error) {
	value, given, err := r.idempotencyKey()
	if err != nil {
		return reply{}, err
	}
	if !given {
		return op.run(ctx, attempt{})
	}
	if op.keepsKey != nil {
		if kept, err := op.keepsKey(ctx); err != nil {
			return reply{}, err
		} else if kept {
			return op.run(ctx, attempt{key: order.HashKey(value)})
		}
	}
	key := idempotency.Key{UserID: r.user, Value: value}
	charged, err := a.checkBeforeReserve(ctx, key, op)
	if err != nil {
		return reply{}, err
	}
	newID, err := a.deps.IDs.NextID(ctx)
	if err != nil {
		return reply{}, unavailable("generate an id to reserve", err)
	}
	fp := fingerprint(r, payload)
	started := a.deps.Now()
	rec, mine, err := a.deps.Idempotency.Begin(ctx, key, fp, newID, started, started.Add(-staleAfter))
	if err != nil {
		return reply{}, unavailable("reserve the idempotency key", err)
	}
	if charged && (!mine || rec.ResourceID != newID) {
		a.deps.Keys.Return(r.user) // the key is stored already
	}
	if !mine {
		return replay(rec, fp)
	}
	at := attempt{id: rec.ResourceID, resumed: rec.ResourceID != newID}
	out, err := op.run(ctx, at)
	if err != nil {
		out = a.renderError(r, err)
	}
	if charged && !at.resumed && out.problem != nil && out.problem.effect == effectNone {
		a.deps.Keys.Return(r.user) // the key is free again
	}
	a.storeOutcome(ctx, r, key, rec, at, out)
	return out, nil
}

// checkBeforeReserve decides, before anything is written, whether a key may be reserved. No key is reserved for a
// request whose refusal is known, or for a user with too many stored keys. But if the key is stored already, it returns
// no error, because an earlier attempt may have succeeded. charged says that one key was charged to the user's quota.
//
// Each request is charged as a look-up, since it asks the store for its key, as often as it is repeated.
func (a *API) checkBeforeReserve(ctx context.Context, key idempotency.Key, op idempotentOperation) (charged bool, err error) {
	if err := a.allowLookup(key.UserID); err != nil {
		return false, err
	}
	var refused error
	if op.cachedRefusal != nil {
		refused = op.cachedRefusal(ctx)
	}
	if refused == nil {
		if a.deps.Keys == nil || key.UserID == 0 {
			return false, nil
		}
		wait, ok := a.deps.Keys.Allow(key.UserID)
		if ok {
			return true, nil
		}
		refused = &rateLimitedError{wait}
	}
	_, known, err := a.deps.Idempotency.Find(ctx, key)
	switch {
	case err != nil:
		return false, unavailable("look up the idempotency key", err)
	case !known:
		return false, refused
	}
	return false, nil
}

// allowLookup charges one look-up to the user's quota, or returns [errRateLimited]. The quota does not apply to
// administrators: their requests have the user ID 0.
func (a *API) allowLookup(userID int64) error {
	if a.deps.Lookups == nil || userID == 0 {
		return nil
	}
	if wait, ok := a.deps.Lookups.Allow(userID); !ok {
		return &rateLimitedError{wait}
	}
	return nil
}

// replay answers a request whose key is reserved already.
func replay(rec idempotency.Record, fp idempotency.Fingerprint) (reply, error) {
	switch {
	case rec.Fingerprint != fp:
		return reply{}, errKeyReused
	case rec.Answer == nil:
		return reply{}, errInProgress
	}
	return reply{
		status: rec.Answer.Status, contentType: []string{rec.Answer.ContentType},
		location: rec.Answer.Location, body: rec.Answer.Body,
		replayed: true, outcome: "replayed",
	}, nil
}

// storeOutcome stores what the repetitions of a request will be told:
//
//	attempt    outcome               what is stored
//	first      success, a refusal    the answer
//	first      nothing was done      nothing: the key is free again
//	resumed    success               the answer
//	resumed    a refusal             nothing: the reservation stays, because the earlier attempt may
//	                                 still run
//	any        unknown               nothing: the reservation stays
//
// If the reservation stays, the next repetition takes it over with the same id once it is stale, and finds out the
// outcome. If the attempt was taken over meanwhile, the store ignores what it writes.
//
// A failure to write is logged only: the client gets the answer, and the reservation stays.
func (a *API) storeOutcome(ctx context.Context, r *request, key idempotency.Key, mine idempotency.Record, at attempt, out reply) {
	effect := effectFinal
	if out.problem != nil {
		effect = out.problem.effect
		if at.resumed {
			effect = effectUnknown
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var err error
	switch effect {
	case effectFinal:
		err = a.deps.Idempotency.Complete(ctx, key, mine, idempotency.Answer{
			Status: out.status, ContentType: out.contentType[0], Location: out.location, Body: out.body,
		})
	case effectNone:
		err = a.deps.Idempotency.Cancel(ctx, key, mine)
	}
	if err != nil {
		a.deps.Log.LogAttrs(ctx, slog.LevelWarn, "idempotency record not stored",
			slog.String("request_id", r.id), slog.Int("status", out.status), slog.Any("error", err))
	}
}

// idempotencyKey reads the header: one value of printable ASCII.
func (r *request) idempotencyKey() (key string, given bool, err error) {
	values := r.Header["Idempotency-Key"]
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", false, invalid("Idempotency-Key was sent %d times", len(values))
	}
	key = values[0]
	if key == "" || len(key) > idempotency.MaxKey {
		return "", false, invalid("Idempotency-Key has %d characters; 1 to %d", len(key), idempotency.MaxKey)
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", false, invalid("Idempotency-Key has a character that is not printable ASCII")
		}
	}
	return key, true, nil
}

// fingerprint covers the method, the path and the payload of a request. Headers do not count, and the user is part of
// the key.
func fingerprint(r *request, payload []byte) idempotency.Fingerprint {
	h := sha256.New()
	h.Write([]byte(r.Method + " " + r.URL.Path + "\n"))
	h.Write(payload)
	return idempotency.Fingerprint(h.Sum(nil))
}
