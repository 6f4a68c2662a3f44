package session

import "seckill/internal/lock"

// handover is what a release says about the next waiter of its own process.
type handover struct {
	to         *waiter
	overOthers int    // 1: hand over although other processes wait
	queueEntry string // the waiter's entry in Redis, or ""
}

// startHandover picks the head of the queue for r's lock, and keeps it from asking by itself until endHandover. It
// returns nil where nobody waits. maxInRow is how often in a row a lock is handed over in this process while other
// processes wait.
func (q *waitQueues) startHandover(r *request, maxInRow int) *handover {
	if !r.mode.LocalHandover {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.queues[queueKey{r.lock(), r.mode}]
	if k == nil || k.waiters.Len() == 0 {
		return nil
	}
	w := k.waiters.Front().Value.(*waiter)
	if w.handoverDone != nil || w.handover != nil {
		return nil
	}
	w.handoverDone = make(chan struct{})
	h := &handover{to: w}
	if w.inRedis {
		h.queueEntry = w.entry()
	}
	if k.handovers < maxInRow {
		h.overOthers = 1
	}
	return h
}

// args returns the arguments of the release script that concern the next waiter.
func (h *handover) args() (owner, leaseID string, ttl int64, overOthers int, queueEntry string) {
	if h == nil {
		return "", "", 0, 0, ""
	}
	r := h.to.req
	return string(r.owner), r.leaseID, r.ttl.Milliseconds(), h.overOthers, h.queueEntry
}

// endHandover gives the waiter the outcome. It reports true where the waiter left meanwhile and the lock may have to be
// released for it.
func (q *waitQueues) endHandover(w *waiter, result handoverResult) (orphaned bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(w.handoverDone)
	w.handoverDone = nil
	if result.unknown {
		w.req.unanswered.Store(true)
	}
	if w.left {
		if result.granted { // else its own attempt may have been granted
			w.req.granted.Store(true)
		}
		return result.granted || result.unknown
	}
	if result.granted {
		result.how = lock.PassedInProcess
		if w.named { // and this release found that it was the holder already
			result.how = lock.PassedByStore
		}
		w.handover = &result
		w.queue.handovers++
		w.notify()
		return false
	}
	w.queue.handovers = 0
	if result.kept {
		w.notify()
		return false
	}
	w.requestAttempt()
	return false
}
