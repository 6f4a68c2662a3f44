package httpapi

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"seckill/internal/idempotency"
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
}

// once carries out work unless the request's Idempotency-Key was answered before,
// and then gives that answer. Without a key it just does the work.
//
// The payload is the part of the request that is not in its address.
func (a *API) once(ctx context.Context, r *request, payload []byte, work func(context.Context, attempt) (reply, error)) (reply, error) {
	value, given, err := r.idempotencyKey()
	if err != nil {
		return reply{}, err
	}
	if !given {
		return work(ctx, attempt{})
	}
	minted, err := a.deps.IDs.NextID(ctx)
	if err != nil {
		return reply{}, unavailable("mint an id to reserve", err)
	}
	key := idempotency.Key{UserID: r.user, Value: value}
	fp := fingerprint(r, payload)
	started := a.deps.Now()
	rec, mine, err := a.deps.Idempotency.Begin(ctx, key, fp, minted, started, started.Add(-staleAfter))
	switch {
	case err != nil:
		return reply{}, unavailable("reserve the idempotency key", err)
	case !mine:
		return a.repeat(rec, fp)
	}

	at := attempt{id: rec.ResourceID, resumed: rec.ResourceID != minted}
	out, err := work(ctx, at)
	if err != nil {
		out = a.refuse(r, err)
	}
	a.settle(ctx, r, key, rec, at, out)
	return out, nil
}

// repeat answers a request whose key somebody has already.
func (a *API) repeat(rec idempotency.Record, fp idempotency.Fingerprint) (reply, error) {
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

// settle writes down what the repetitions of a request are to be told.
//
// The first attempt judges for all: its answer is final or, where it was refused in
// passing, leaves the key free. If it was taken over meanwhile, the store takes no
// word from it. One that resumed stores what it found or created, but no refusal:
// the attempt before it may still be at work. Then, and where the outcome is
// unknown, the reservation stays: the next repetition takes it over with the same
// id once it is stale, and finds out.
//
// A failure to write is not the client's business, who has the answer: it leaves
// the reservation too.
func (a *API) settle(ctx context.Context, r *request, key idempotency.Key, mine idempotency.Record, at attempt, out reply) {
	fate := settled
	if out.problem != nil {
		fate = out.problem.fate
		if at.resumed {
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
