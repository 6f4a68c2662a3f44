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

// waitQueues holds the waiters of this process: one queue for each lock and mode, in order of arrival. Only the head of
// a queue talks to Redis, so a process costs Redis one waiter per lock, however many of its goroutines want it. Where a
// protocol has to know every waiter (Mode.AllQueueInRedis), each of them asks.
type waitQueues struct {
	listener     *listener
	pollInterval time.Duration
	handoverTTL  time.Duration

	mu     sync.Mutex
	queues map[queueKey]*keyQueue
}

type queueKey struct {
	lock string
	mode *mode
}

// keyQueue is the queue of one lock and mode. The mutex of the waitQueues guards it.
type keyQueue struct {
	all        *waitQueues
	key        queueKey
	channel    string
	waiters    list.List // of *waiter; the front is the head
	subscribed atomic.Bool
	handovers  int         // local handovers in a row
	contended  bool        // the last waiter that was granted the lock had to wait for it
	idle       *time.Timer // removes the queue once nobody has waited for idleTTL

	ticket string // of the shared entry in Redis, where only the head asks

	// The last refusal, for waiters whose wait ends.
	holder lock.Owner
	until  time.Time // zero: no expiry
}

// waiter is an acquisition that waits in a keyQueue. The mutex of the waitQueues guards all of it except wake.
type waiter struct {
	queue *keyQueue
	elem  *list.Element
	req   *request
	wake  chan struct{} // something has changed for the waiter

	inRedis    bool      // it may have an entry in the lock's queue in Redis
	ticket     string    // of that entry; "0" before it has one
	attemptNow bool      // it has a reason to ask at once
	attemptAt  time.Time // when it asks without a reason; zero: it does not ask yet
	refusedAt  time.Time // when its last refused attempt started
	requeued   bool      // a refusal found its entry gone: it may have been granted the lock earlier
	named      bool      // Redis named it, and it has not been refused since

	handoverDone chan struct{}   // closed when a local handover to it has ended; nil: none
	handover     *handoverResult // the lock was handed to it
	left         bool            // it left during a local handover
}

// handoverResult is the outcome of a handover for the waiter.
type handoverResult struct {
	grant
	granted bool
	unknown bool // the release had no reply
	kept    bool // the holder has other leases
}

func newWaitQueues(listener *listener, config Config) *waitQueues {
	return &waitQueues{
		listener: listener, pollInterval: config.pollInterval(), handoverTTL: config.handoverTTL(),
		queues: make(map[queueKey]*keyQueue),
	}
}

// expected reports whether r has to expect that the lock is taken: somebody in this process waits for it, or had to
// wait for it within the last idleTTL.
func (q *waitQueues) expected(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.queues[queueKey{r.lock(), r.mode}]
	return k != nil && (k.waiters.Len() > 0 || k.contended)
}

// count returns how many wait for a lock in this process, and how many of them have an entry in Redis.
func (q *waitQueues) count(lockName string) (waiting, inRedis int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, k := range q.queues {
		if key.lock != lockName {
			continue
		}
		waiting += k.waiters.Len()
		for e := k.waiters.Front(); e != nil; e = e.Next() {
			if e.Value.(*waiter).inRedis {
				inRedis++
			}
		}
	}
	return waiting, inRedis
}

// idleTTL is how long an empty queue stays subscribed to its channel. A waiter that comes back within that time saves
// SUBSCRIBE and UNSUBSCRIBE, and the first attempt as well where the lock was contended.
const idleTTL = 100 * time.Millisecond

// removeIdle removes a queue in which nobody waits.
func (q *waitQueues) removeIdle(k *keyQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k.waiters.Len() == 0 && q.queues[k.key] == k {
		delete(q.queues, k.key)
		q.listener.unsubscribe(k)
	}
}

// join appends a waiter to its queue. The first waiter of a queue subscribes to channel.
func (q *waitQueues) join(r *request, channel func() string) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := queueKey{r.lock(), r.mode}
	k := q.queues[key]
	if k == nil {
		k = &keyQueue{all: q, key: key, channel: channel(), ticket: "0"}
		k.idle = time.AfterFunc(time.Hour, func() { q.removeIdle(k) })
		q.queues[key] = k
		q.listener.subscribe(k)
	}
	k.idle.Stop()
	w := &waiter{queue: k, req: r, wake: make(chan struct{}, 1), ticket: "0"}
	w.elem = k.waiters.PushBack(w)
	switch {
	case r.mode.AllQueueInRedis:
		// It asks now to be queued in order of arrival, and again once subscribed: it missed the messages before that.
		w.attemptNow = true
	case k.waiters.Len() == 1:
		w.becomeHead()
	}
	return w
}

// becomeHead lets the new head of a queue ask: at once where it would receive messages, else after the poll interval.
func (w *waiter) becomeHead() {
	w.attemptNow, w.attemptAt = w.queue.subscribed.Load(), time.Now().Add(w.queue.all.pollInterval)
	w.notify()
}

// leave removes a waiter and returns its entry in Redis, which has to be removed too, or "" where it has none.
func (q *waitQueues) leave(w *waiter, granted bool) (entry string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := w.queue
	wasHead := k.waiters.Front() == w.elem
	k.waiters.Remove(w.elem)
	switch {
	case granted:
		k.contended = w.handover != nil || !w.refusedAt.IsZero()
	case w.handoverDone != nil:
		w.left = true // endHandover has the lock released
	case w.handover != nil:
		w.req.granted.Store(true) // too late for the caller: it has to be released
	}
	next := k.waiters.Front()
	if next == nil {
		k.idle.Reset(idleTTL)
	}
	if wasHead {
		k.ticket = "0"
	}
	if wasHead && next != nil && !k.key.mode.AllQueueInRedis {
		head := next.Value.(*waiter)
		if granted {
			// The release will hand the lock over. If the holder dies, its lease ends.
			head.attemptAt = q.retryTime(w.req.ttl)
			head.notify()
		} else {
			head.becomeHead()
		}
	}
	if granted || !w.inRedis {
		return ""
	}
	return w.entry()
}

// retryTime is when to ask again for a lock that is taken for ttl.
func (q *waitQueues) retryTime(ttl time.Duration) time.Time {
	// PTTL is in whole milliseconds, and a key exists until the last one has passed.
	return time.Now().Add(min(ttl+time.Millisecond, q.pollInterval))
}

// entry is the waiter's entry in Redis: where to notify it, and what it asks for.
func (w *waiter) entry() string {
	r := w.req
	return fmt.Sprintf("%s %s %d %s", w.queue.channel, r.leaseID, r.ttl.Milliseconds(), r.owner)
}

// queueEntry returns the arguments of an attempt that concern the queue in Redis: the caller's entry, "" where it does
// not wait, and the ticket.
func (q *waitQueues) queueEntry(w *waiter) (entry, ticket string) {
	if w == nil {
		return "", "0"
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.entry(), *w.ticketRef()
}

// ticketRef is where the ticket of w is kept: its own, or the one that the heads of its queue share.
func (w *waiter) ticketRef() *string {
	if w.queue.key.mode.AllQueueInRedis {
		return &w.ticket
	}
	return &w.queue.ticket
}

// refused records the refusal of an attempt that began at start.
func (q *waitQueues) refused(w *waiter, start time.Time, r refusal) {
	if w == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := w.queue
	*w.ticketRef() = r.ticket
	w.refusedAt, w.named = start, false
	w.requeued = w.requeued || r.requeued
	k.holder, k.until = r.Holder, time.Time{}
	if r.TTL != lock.NoExpiry {
		k.until = time.Now().Add(r.TTL)
	}
	w.attemptAt = q.retryTime(min(r.TTL, q.pollInterval))
}

// howGranted returns how the key came to the caller of an attempt that was granted.
func (q *waitQueues) howGranted(w *waiter) lock.Handover {
	if w == nil {
		return lock.FoundFree
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.named {
		return lock.PassedByStore
	}
	return lock.FoundFree
}

// lastRefusal is the error of a waiter whose wait has ended.
func (q *waitQueues) lastRefusal(key string, w *waiter) *lock.NotAcquiredError {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := &lock.NotAcquiredError{Key: key, Holder: w.queue.holder, TTL: lock.NoExpiry}
	switch {
	case e.Holder == "":
		e.TTL = 0
	case !w.queue.until.IsZero():
		e.TTL = max(time.Until(w.queue.until), 0)
	}
	return e
}

// requestAttempt has w ask at once.
func (w *waiter) requestAttempt() {
	w.attemptNow = true
	w.notify()
}

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// onSubscribed is called when the subscription to the queue's channel is confirmed. The waiters ask, because they
// missed the messages before that.
func (k *keyQueue) onSubscribed() {
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	k.subscribed.Store(true)
	k.eachAsker(func(w *waiter) { w.requestAttempt() })
}

// onMessage is called with a message on the queue's channel. The package's documentation has a table of the messages.
func (k *keyQueue) onMessage(payload string) {
	leaseID, token, granted := parseGranted(payload)
	k.all.mu.Lock()
	defer k.all.mu.Unlock()
	if granted {
		for e := k.waiters.Front(); e != nil; e = e.Next() {
			if w := e.Value.(*waiter); w.req.leaseID == leaseID {
				w.onGranted(token)
				return
			}
		}
		return // it left: with the lock, or it releases the lock
	}
	k.eachAsker(func(w *waiter) {
		if payload == "" || payload == toAll || payload == w.req.leaseID {
			w.named = w.named || payload != toAll
			w.requestAttempt()
		}
	})
}

// toAll is the message to all waiters.
const toAll = "*"

// parseGranted parses "granted:<token> <lease id>".
func parseGranted(payload string) (leaseID string, token uint64, ok bool) {
	rest, ok := strings.CutPrefix(payload, "granted:")
	if !ok {
		return "", 0, false
	}
	number, leaseID, _ := strings.Cut(rest, " ")
	token, err := strconv.ParseUint(number, 10, 64)
	return leaseID, token, err == nil
}

// onGranted is called when a release in another process made w the holder for handoverTTL. That time is counted from
// w's last refusal. It suffices where a watchdog renews the lease and most of the time is left. Otherwise w asks, finds
// that it is the holder, and gets its whole lease.
//
// The last refusal came before the grant: a grant removes w's entry from the queue, and only w adds it again, so the
// first refusal after a grant finds it gone. Where a refusal did, or the reply to an attempt was lost, this message may
// be late and the grant over. w asks then too.
func (w *waiter) onGranted(token uint64) {
	w.named = true
	first := min(w.req.ttl, w.queue.all.handoverTTL)
	left := time.Until(w.refusedAt.Add(first))
	late := w.requeued || w.req.unanswered.Load() // possibly
	if w.handoverDone != nil || w.handover != nil || !w.req.autoRenew || late || left < first/2 {
		w.requestAttempt()
		return
	}
	w.handover = &handoverResult{granted: true, grant: grant{start: w.refusedAt, token: token, how: lock.PassedByStore, firstTTL: first}}
	w.notify()
}

// eachAsker calls f for the waiters that ask: the head, or all of them.
func (k *keyQueue) eachAsker(f func(*waiter)) {
	for e := k.waiters.Front(); e != nil; e = e.Next() {
		f(e.Value.(*waiter))
		if !k.key.mode.AllQueueInRedis {
			return
		}
	}
}

// next says what w has to do: take the lock that was handed to it, ask, or sleep until wakeAt (zero: until it is
// notified).
func (q *waitQueues) next(w *waiter) (handover *handoverResult, ask bool, wakeAt time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.handover != nil:
		return w.handover, false, time.Time{}
	case w.handoverDone != nil:
		return nil, false, time.Time{}
	case w.attemptNow || !w.attemptAt.IsZero() && !time.Now().Before(w.attemptAt):
		w.attemptNow = false
		w.inRedis = true // possibly, from the moment the attempt is sent
		return nil, true, time.Time{}
	}
	return nil, false, w.attemptAt
}
