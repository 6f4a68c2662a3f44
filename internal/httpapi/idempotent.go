package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"seckill/internal/idempotency"
	"seckill/internal/order"
)

const (
	// staleAfter is when a repetition may take over from an attempt that has not
	// answered. It is short, so that a client whose attempt died does not wait
	// long, and shorter than an attempt can live; two attempts can therefore be at
	// work at once. They do no harm to each other: both create under the one
	// reserved id, which the database takes only once, and the later one, told that
	// it resumes, looks for what the earlier one created. But neither may then
	// judge for the other; see settle.
	staleAfter = 10 * time.Second
	// recordTimeout bounds the writing down of an answer, which goes on when the
	// client has hung up.
	recordTimeout = 3 * time.Second
)

// attempt is one go at a request.
type attempt struct {
	// id is reserved for what the request creates; 0: nothing is.
	id int64
	// resumed: an earlier attempt may have created it already.
	resumed bool
	// alone: no other attempt is at work, nor will one be before this has answered or is
	// stale. So a refusal is the request's.
	alone bool
}

// errand is what a request asks for, to be carried out once.
type errand struct {
	work func(context.Context, attempt) (reply, error)
	// kept says whether what a 202 promised is still there, under the id that was reserved:
	// nil, or [order.ErrNotFound] where it is certainly not. It may be nil where no
	// answer is a 202.
	kept func(ctx context.Context, id int64) error
}

// once carries out work unless the request's Idempotency-Key was answered before,
// and then gives that answer. Without a key it just does the work.
//
// The payload is the part of the request that is not in its address.
func (a *API) once(ctx context.Context, r *request, payload []byte, do errand) (reply, error) {
	value, given, err := r.idempotencyKey()
	if err != nil {
		return reply{}, err
	}
	if !given {
		return do.work(ctx, attempt{})
	}
	minted, err := a.deps.IDs.NextID(ctx)
	if err != nil {
		return reply{}, unavailable("mint an id to reserve", err)
	}
	key := idempotency.Key{UserID: r.user, Value: value}
	fp := fingerprint(r, payload)
	started := a.deps.Now()
	rec, mine, err := a.deps.Idempotency.Begin(ctx, key, fp, minted, started, started.Add(-staleAfter))
	if err != nil {
		return reply{}, unavailable("reserve the idempotency key", err)
	}
	at := attempt{id: rec.ResourceID, resumed: rec.ResourceID != minted}
	at.alone = !at.resumed
	if !mine {
		out, err := a.repeat(ctx, rec, fp, do)
		if !errors.Is(err, errLost) {
			return out, err
		}
		// The one that has answered is the only one there was. The number does not tell a
		// takeover, after which an earlier one may still be at work, from a loss before this
		// one: so who loses his order a second time has no refusal stored, and is told by
		// each repetition anew.
		at.alone = rec.Attempt == 1
		if rec, err = a.reopen(ctx, r, key, rec, started); err != nil {
			return reply{}, err
		}
	}
	out, err := do.work(ctx, at)
	if err != nil {
		out = a.refuse(r, err)
	}
	a.settle(ctx, r, key, rec, at, out)
	return out, nil
}

// errLost: what an answer promised is not there any more.
var errLost = errors.New("httpapi: what was accepted is lost")

// repeat answers a request whose key somebody has already, or returns [errLost].
func (a *API) repeat(ctx context.Context, rec idempotency.Record, fp idempotency.Fingerprint, do errand) (reply, error) {
	switch {
	case rec.Fingerprint != fp:
		return reply{}, errKeyReused
	case rec.Answer == nil:
		return reply{}, errInProgress
	}
	if rec.Answer.Status == http.StatusAccepted && do.kept != nil {
		switch err := do.kept(ctx, rec.ResourceID); {
		case errors.Is(err, order.ErrNotFound):
			return reply{}, errLost
		case err != nil:
			return reply{}, unavailable("look for what was accepted", err)
		}
	}
	return reply{
		status: rec.Answer.Status, contentType: []string{rec.Answer.ContentType},
		location: rec.Answer.Location, body: rec.Answer.Body,
		replayed: true, outcome: "replayed",
	}, nil
}

// reopen takes a key over whose answer is not true any more: what was accepted is lost.
// It is asked for again under the same id, so should it turn up after all, it is still
// one.
func (a *API) reopen(ctx context.Context, r *request, key idempotency.Key, seen idempotency.Record, now time.Time) (idempotency.Record, error) {
	rec, mine, err := a.deps.Idempotency.Reopen(ctx, key, seen, now)
	switch {
	case err != nil:
		return rec, unavailable("reserve the idempotency key again", err)
	case !mine: // another repetition has, just now
		return rec, errInProgress
	}
	a.deps.Log.LogAttrs(ctx, slog.LevelWarn, "what was accepted is not there any more, asking for it again",
		slog.String("request_id", r.id), slog.Int64("id", rec.ResourceID))
	return rec, nil
}

// settle writes down what the repetitions of a request are to be told.
//
// The first attempt judges for all: its answer is final or, where it was refused in
// passing, leaves the key free. If it was taken over meanwhile, the store takes no
// word from it. One that resumed stores what it found or created, but no refusal,
// unless it is alone: the attempt before it may still be at work. Then, and where the
// outcome is unknown, the reservation stays: the next repetition takes it over with the
// same id once it is stale, and finds out.
//
// One that asks again for what was lost is alone and can store a refusal. But it does not
// leave the key free: that would give the next repetition another id, and what was lost
// may still turn up under this one.
//
// A failure to write is not the client's business, who has the answer: it leaves
// the reservation too.
func (a *API) settle(ctx context.Context, r *request, key idempotency.Key, mine idempotency.Record, at attempt, out reply) {
	fate := settled
	if out.problem != nil {
		fate = out.problem.fate
		if !at.alone || at.resumed && fate == undone {
			fate = unknown
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var err error
	switch fate {
	case settled:
		err = a.deps.Idempotency.Complete(ctx, key, mine, idempotency.Answer{
			Status: out.status, ContentType: out.contentType[0], Location: out.location, Body: out.body,
		})
	case undone:
		err = a.deps.Idempotency.Cancel(ctx, key, mine)
	}
	if err != nil {
		a.deps.Log.LogAttrs(ctx, slog.LevelWarn, "idempotency record not settled",
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

// fingerprint covers what was asked and where. Nothing else makes a request
// another one: not its headers, and not who asks, which the key has.
func fingerprint(r *request, payload []byte) idempotency.Fingerprint {
	h := sha256.New()
	h.Write([]byte(r.Method + " " + r.URL.Path + "\n"))
	h.Write(payload)
	return idempotency.Fingerprint(h.Sum(nil))
}
