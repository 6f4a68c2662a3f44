package session

import (
	"container/list"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

// room is where acquisitions of this process wait: one line for each lock and side,
// in order of arrival. Only the head of a line talks to Redis, so a process costs
// Redis one waiter for each lock, however many of its goroutines want it; only
// where a protocol needs every waiter's place to be known does each of them ask.
type room struct {
	listener *listener
	askAgain time.Duration
	grace    time.Duration // how long a lock that is passed on is held before it is renewed

	mu    sync.Mutex
	lines map[lineKey]*line
}

type lineKey struct {
	lock string
	side *side
}

type line struct {
	room    *room
	key     lineKey
	channel string
	waiters list.List // of *waiter; the front is the head
	ready   atomic.Bool
	passes  int         // hand-overs in a row
	idle    *time.Timer // it ends the line, while nobody waits

	ticket string // of the head, where it alone asks

	// What was last heard, for those whose wait ends.
	holder lock.Owner
	until  time.Time // zero: no expiry
}

// waiter is a place in a line. All of it is guarded by the room's mutex, but for
// the bell.
type waiter struct {
	line *line
	at   *list.Element
	r    *request
	bell chan struct{} // there is a reason to look

	listed  bool      // it may have a place in the lock's queue in Redis
	ticket  string    // by which that is found again; "0" before it was drawn
	due     bool      // it shall ask at once
	askAt   time.Time // it shall ask then; zero: it is not its turn
	refused time.Time // when the last attempt began that was refused

	handing chan struct{} // closed when an attempt to hand it the lock has ended
	handed  *handOver
	gone    bool // it left while the lock was being handed to it
}

// handOver is what came of one.
type handOver struct {
	grant
	granted bool
	unknown bool // the release had no answer
	kept    bool // the holder has other leases
}

func newRoom(listener *listener, config Config) *room {
	return &room{
		listener: listener, askAgain: config.askAgain(), grace: time.Duration(config.PlaceTimeout.Milliseconds()/2) * time.Millisecond,
		lines: make(map[lineKey]*line),
	}
}

// busy reports whether anybody here waits for the same, or did a moment ago.
func (m *room) busy(r *request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines[lineKey{r.lock(), r.side}] != nil
}

// waiting is how many wait for a lock, and whether they have a place in Redis
// that counts as one.
func (m *room) waiting(name string) (n, listed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, l := range m.lines {
		if key.lock != name {
			continue
		}
		n += l.waiters.Len()
		for e := l.waiters.Front(); e != nil; e = e.Next() {
			if e.Value.(*waiter).listed {
				listed++
			}
		}
	}
	return n, listed
}

// linger is how long a line stays subscribed to its channel when nobody waits in it.
// Who comes back within that time need not try first, subscribe and unsubscribe.
const linger = 100 * time.Millisecond

// disband ends a line in which nobody waits.
func (m *room) disband(l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.waiters.Len() == 0 && m.lines[l.key] == l {
		delete(m.lines, l.key)
		m.listener.unwant(l)
	}
}

// join takes the last place; the first to come has the channel subscribed to.
func (m *room) join(r *request, channel func() string) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := lineKey{r.lock(), r.side}
	l := m.lines[key]
	if l == nil {
		l = &line{room: m, key: key, channel: channel(), ticket: "0"}
		l.idle = time.AfterFunc(time.Hour, func() { m.disband(l) })
		m.lines[key] = l
		m.listener.want(l)
	}
	l.idle.Stop()
	w := &waiter{line: l, r: r, bell: make(chan struct{}, 1), ticket: "0"}
	w.at = l.waiters.PushBack(w)
	switch {
	case r.side.EachAsks:
		// For the sake of the order of arrival; and again when the subscription is
		// there, since what was said before that was missed.
		w.due = true
	case l.waiters.Len() == 1:
		w.askNow()
	}
	return w
}

// askNow is for who has become the head of a line: it asks as soon as it would hear
// of the lock, or in a moment where it cannot be heard of.
func (w *waiter) askNow() {
	w.due, w.askAt = w.line.ready.Load(), time.Now().Add(w.line.room.askAgain)
	w.look()
}

// leave gives the place up, wherever it is, and returns the place in Redis that is
// to be given up too, or "".
func (m *room) leave(w *waiter, granted bool) (member string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := w.line
	wasHead := l.waiters.Front() == w.at
	l.waiters.Remove(w.at)
	switch {
	case granted:
	case w.handing != nil:
		w.gone = true // settle gives it back
	case w.handed != nil:
		w.r.granted.Store(true) // too late to be of use: it is given back
	}
	next := l.waiters.Front()
	if next == nil {
		l.idle.Reset(linger)
	}
	if wasHead {
		l.ticket = "0"
	}
	if wasHead && next != nil && !l.key.side.EachAsks {
		head := next.Value.(*waiter)
		if granted {
			// The lock will be handed on; if its holder dies instead, its lease ends.
			head.askAt = m.when(w.r.ttl)
			head.look()
		} else {
			head.askNow()
		}
	}
	if granted || !w.listed {
		return ""
	}
	return w.member()
}

// when is the time to ask again where the lock is taken for ttl.
func (m *room) when(ttl time.Duration) time.Time {
	// PTTL rounds to whole milliseconds, and a key is there until the last one is over.
	return time.Now().Add(min(ttl+time.Millisecond, m.askAgain))
}

// member is the place's name in Redis: where to tell the waiter, and what it asks for.
func (w *waiter) member() string {
	r := w.r
	return fmt.Sprintf("%s %s %d %s", w.line.channel, r.lease, r.ttl.Milliseconds(), r.owner)
}

// place is what an attempt says of the caller's place: its name and its ticket.
func (m *room) place(w *waiter) (member, ticket string) {
	if w == nil {
		return "", "0"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return w.member(), *w.ticketOf()
}

// ticketOf is the ticket that w asks with: its own, or that of the heads of its line.
func (w *waiter) ticketOf() *string {
	if w.line.key.side.EachAsks {
		return &w.ticket
	}
	return &w.line.ticket
}

// refused records what an attempt was told that began at start.
func (m *room) refused(w *waiter, start time.Time, e *lock.NotAcquiredError, ticket string) {
	if w == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := w.line
	*w.ticketOf() = ticket
	w.refused = start
	l.holder, l.until = e.Holder, time.Time{}
	if e.TTL != lock.NoExpiry {
		l.until = time.Now().Add(e.TTL)
	}
	w.askAt = m.when(min(e.TTL, m.askAgain))
}

// lastHeard is the refusal for one whose wait has ended.
func (m *room) lastHeard(key string, w *waiter) *lock.NotAcquiredError {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := &lock.NotAcquiredError{Key: key, Holder: w.line.holder, TTL: lock.NoExpiry}
	switch {
	case e.Holder == "":
		e.TTL = 0
	case !w.line.until.IsZero():
		e.TTL = max(time.Until(w.line.until), 0)
	}
	return e
}

// ring has w ask.
func (w *waiter) ring() {
	w.due = true
	w.look()
}

func (w *waiter) look() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// confirmed is called when the line's channel is subscribed to: what was announced
// before that was missed.
func (l *line) confirmed() {
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	l.ready.Store(true)
	l.each(func(w *waiter) { w.ring() })
}

// announced is called with what was said on the line's channel: nothing to the
// head, everyone to all, a lease to its waiter, or that a lease was granted.
func (l *line) announced(payload string) {
	lease, token, granted := parseGranted(payload)
	l.room.mu.Lock()
	defer l.room.mu.Unlock()
	if granted {
		for e := l.waiters.Front(); e != nil; e = e.Next() {
			if w := e.Value.(*waiter); w.r.lease == lease {
				w.passedOn(token)
				return
			}
		}
		return // it left: with the lock, or giving it back
	}
	l.each(func(w *waiter) {
		if payload == "" || payload == everyone || payload == w.r.lease {
			w.ring()
		}
	})
}

const everyone = "*"

// parseGranted takes "granted:<token> <lease>" apart.
func parseGranted(payload string) (lease string, token uint64, ok bool) {
	rest, ok := strings.CutPrefix(payload, "granted:")
	if !ok {
		return "", 0, false
	}
	number, lease, _ := strings.Cut(rest, " ")
	token, err := strconv.ParseUint(number, 10, 64)
	return lease, token, err == nil
}

// passedOn is called when the lock was passed on to w, for a moment that is counted
// from an attempt that was refused and so came before it. That is enough to begin
// with where a watchdog makes more of it; else, or if most of the moment is over, w
// asks, finds that the lock is its own, and has it for as long as it wanted.
func (w *waiter) passedOn(token uint64) {
	first := min(w.r.ttl, w.line.room.grace)
	left := time.Until(w.refused.Add(first))
	if w.handing != nil || w.handed != nil || !w.r.renewed || left < first/2 {
		w.ring()
		return
	}
	w.handed = &handOver{granted: true, grant: grant{start: w.refused, token: token, first: first}}
	w.look()
}

// each calls f for those whose turn it is to ask.
func (l *line) each(f func(*waiter)) {
	for e := l.waiters.Front(); e != nil; e = e.Next() {
		f(e.Value.(*waiter))
		if !l.key.side.EachAsks {
			return
		}
	}
}

// turn says what w is to do: take what it was handed, ask, or sleep until wake.
func (m *room) turn(w *waiter) (handed *handOver, ask bool, wake time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case w.handed != nil:
		return w.handed, false, time.Time{}
	case w.handing != nil:
		return nil, false, time.Time{}
	case w.due || !w.askAt.IsZero() && !time.Now().Before(w.askAt):
		w.due = false
		w.listed = true // as soon as the attempt is sent it may be
		return nil, true, time.Time{}
	}
	return nil, false, w.askAt
}
