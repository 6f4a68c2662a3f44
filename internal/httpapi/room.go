package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"seckill/internal/room"
)

// Rooms are the waiting rooms. [room.Service] implements it.
type Rooms interface {
	// Enter gives a user a ticket.
	Enter(ctx context.Context, e room.Entry) (room.Answer, error)
	// Look returns the state of a room, from memory unless the ticket is called.
	Look(ctx context.Context, q room.Query) (room.Answer, error)
	// Await waits until Look may return another state, or the limit has passed. Its only error is the context's.
	Await(ctx context.Context, q room.Query, told room.Answer, limit time.Duration) error
}

var _ Rooms = (*room.Service)(nil)

// enterRoom is POST /api/v1/vouchers/{id}/room.
func (a *API) enterRoom(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	entry := room.Entry{VoucherID: id, UserID: r.user, Address: addressOf(r.RemoteAddr)}
	if entry.Shown, err = r.headerOnce("Room-Ticket"); err != nil {
		return reply{}, err
	}
	if entry.Work, err = r.headerOnce("Room-Work"); err != nil {
		return reply{}, err
	}
	if err := r.readNothing(); err != nil {
		return reply{}, err
	}
	if a.deps.Rooms == nil {
		return reply{}, room.ErrNoRoom
	}
	answer, err := a.deps.Rooms.Enter(ctx, entry)
	if err != nil {
		return reply{}, err
	}
	return a.roomReply(http.StatusCreated, &answer), nil
}

// addressOf returns a number for the address of a client, the same at every instance; of IPv6 for its network of 64
// bits, since one client usually has all of that.
func addressOf(remote string) uint64 {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return 0
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	sum := sha256.Sum256(addr.AsSlice())
	return binary.BigEndian.Uint64(sum[:])
}

// showRoom is GET /api/v1/vouchers/{id}/room. With a ticket it needs the ticket's user, and a visitor who is called
// gets the pass. With ?wait= it waits for the next state.
func (a *API) showRoom(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	q := room.Query{VoucherID: id, Claims: r.Method == http.MethodGet}
	if q.Ticket, err = r.headerOnce("Room-Ticket"); err != nil {
		return reply{}, err
	}
	var wait time.Duration
	if r.URL.RawQuery != "" {
		query, err := r.query()
		if err != nil {
			return reply{}, err
		}
		if q.Ticket == "" {
			q.Ticket = query.Get("ticket")
		}
		if wait, err = r.queryWait(); err != nil {
			return reply{}, err
		}
	}
	if q.Ticket != "" {
		if err := a.authenticateUser(r); err != nil {
			return reply{}, err
		}
		q.User = r.user
	}
	if a.deps.Rooms == nil {
		return reply{}, room.ErrNoRoom
	}
	answer, err := a.lookAtRoom(ctx, r, q, wait)
	if err != nil {
		return reply{}, err
	}
	return a.roomReply(http.StatusOK, &answer), nil
}

// lookAtRoom looks until the state is another one than at first, or the wait is over.
func (a *API) lookAtRoom(ctx context.Context, r *request, q room.Query, wait time.Duration) (room.Answer, error) {
	first, err := a.deps.Rooms.Look(ctx, q)
	if err != nil || wait <= 0 || !first.State.Changes() || r.enter(a.limits.waits) != nil {
		return first, err
	}
	r.deadline.Extend(wait)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.waits, cancel)()
	until := time.Now().Add(wait)
	for answer := first; ; {
		left := time.Until(until)
		if left <= 0 || a.waits.Err() != nil {
			return answer, nil
		}
		if err := a.deps.Rooms.Await(waiting, q, answer, left); err != nil && a.waits.Err() == nil {
			return room.Answer{}, err
		}
		if answer, err = a.deps.Rooms.Look(ctx, q); err != nil || answer.State != first.State {
			return answer, err
		}
	}
}

// roomReply writes the JSON by hand: a poll should cost no more than a refusal, and nothing in it is to be escaped.
func (a *API) roomReply(status int, answer *room.Answer) reply {
	b := roomWriter{append(make([]byte, 0, maxRoomBody), `{"state":"`...)}
	b.body = append(append(b.body, answer.State...), '"')
	b.text("ticket", answer.Ticket)
	if answer.Number >= 0 {
		b.number("number", answer.Number)
	}
	if answer.Position > 0 {
		b.number("position", answer.Position)
		b.number("ahead", answer.Ahead)
	}
	b.number("serving", answer.Serving)
	b.number("waiting", answer.Waiting)
	if answer.Issued > 0 {
		b.number("passes_issued", answer.Issued)
		b.number("passes_used", answer.Spent)
		b.number("passes_lapsed", answer.Lapsed)
	}
	if answer.UnitsLeft >= 0 {
		b.number("units_left", answer.UnitsLeft)
	}
	if answer.Estimate >= 0 {
		b.number("estimate_s", int64((answer.Estimate+time.Second-1)/time.Second))
	}
	b.text("awaits", answer.Awaits)
	b.time("opens_at", answer.OpensAt)
	b.text("pass", answer.Pass)
	if answer.Pass != "" {
		b.time("pass_until", answer.PassUntil)
		b.number("pass_for_ms", answer.PassFor.Milliseconds())
	}
	b.text("commitment", answer.Commitment)
	b.text("seed", answer.Seed)
	if answer.Drawn >= 0 {
		b.number("drawn", answer.Drawn)
	}
	b.number("poll_after_ms", answer.PollAfter.Milliseconds())
	return reply{status: status, contentType: a.problems.json, body: append(b.body, '}'), outcome: "ok"}
}

// maxRoomBody is about the length of the longest answer.
const maxRoomBody = 640

// roomWriter appends members to a JSON object that has one already.
type roomWriter struct{ body []byte }

func (w *roomWriter) name(name string) {
	w.body = append(append(append(w.body, `,"`...), name...), `":`...)
}

func (w *roomWriter) number(name string, n int64) {
	w.name(name)
	w.body = strconv.AppendInt(w.body, n, 10)
}

// text appends a text that needs no escaping, unless it is empty.
func (w *roomWriter) text(name, text string) {
	if text != "" {
		w.name(name)
		w.body = append(append(append(w.body, '"'), text...), '"')
	}
}

func (w *roomWriter) time(name string, t time.Time) {
	if !t.IsZero() {
		w.name(name)
		w.body = append(t.UTC().AppendFormat(append(w.body, '"'), time.RFC3339Nano), '"')
	}
}
