package session

// successor is who is next in this process when a lease is released.
type successor struct {
	waiter *waiter
	passes int    // 1: though others wait in Redis
	place  string // the one it has in Redis, or ""
}

// successor picks the head of the line for r's lock and keeps it from asking by
// itself until [room.settle] says what came of it. limit is how often in a row a
// lock is handed on here while other processes wait.
func (m *room) successor(r *request, limit int) *successor {
	if !r.side.HandsOver {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[lineKey{r.lock(), r.side}]
	if l == nil || l.waiters.Len() == 0 {
		return nil
	}
	w := l.waiters.Front().Value.(*waiter)
	if w.handing != nil || w.handed != nil {
		return nil
	}
	w.handing = make(chan struct{})
	next := &successor{waiter: w}
	if w.listed {
		next.place = w.member()
	}
	if l.passes < limit {
		next.passes = 1
	}
	return next
}

// args are what the release says of the successor.
func (n *successor) args() (owner, lease string, ttl int64, passes int, place string) {
	if n == nil {
		return "", "", 0, 0, ""
	}
	r := n.waiter.r
	return string(r.owner), r.lease, r.ttl.Milliseconds(), n.passes, n.place
}

// settle tells the successor what came of it. It reports whether the successor
// left meanwhile and there may be something to give back.
func (m *room) settle(w *waiter, out handOver) (abandoned bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(w.handing)
	w.handing = nil
	if out.unknown {
		w.r.unanswered.Store(true)
	}
	if w.gone {
		w.r.granted.Store(out.granted)
		return out.granted || out.unknown
	}
	if out.granted {
		w.handed = &out
		w.line.passes++
		w.look()
		return false
	}
	w.line.passes = 0
	if out.kept {
		w.look()
		return false
	}
	w.ring()
	return false
}
