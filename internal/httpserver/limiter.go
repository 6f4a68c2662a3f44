package httpserver

import (
	"errors"
	"hash/maphash"
	"net"
	"net/netip"
	"sync/atomic"
)

// The errors of what is beyond a bound.
var (
	ErrTooMany         = errors.New("httpserver: too many in progress")
	ErrTooManyOfClient = errors.New("httpserver: too many of one client in progress")
)

// Counter counts what is refused.
type Counter interface{ Inc() }

// Limiter bounds how many requests, connections or other things are in progress: in all, and of each client. A nil
// Limiter bounds nothing.
type Limiter struct {
	inProgress               *atomic.Int64
	most                     int64 // in progress; 0: any number
	clients                  *clientCounter
	refused, refusedOfClient Counter
}

// NewLimiter returns a Limiter, and counts what it refuses. A bound of 0 is none.
func NewLimiter(all, ofClient int, refused, refusedOfClient Counter) *Limiter {
	return &Limiter{inProgress: new(atomic.Int64), most: int64(all), clients: newClientCounter(ofClient), refused: refused, refusedOfClient: refusedOfClient}
}

// ForClients returns a Limiter that shares l's bound in all, with another bound for clients of another kind.
func (l *Limiter) ForClients(ofClient int, refusedOfClient Counter) *Limiter {
	own := *l
	own.clients, own.refusedOfClient = newClientCounter(ofClient), refusedOfClient
	return &own
}

// Enter counts one more in progress until Leave is called, or returns [ErrTooMany] or [ErrTooManyOfClient].
func (l *Limiter) Enter(client uint64) error {
	if l == nil {
		return nil
	}
	if n := l.inProgress.Add(1); l.most > 0 && n > l.most {
		l.inProgress.Add(-1)
		l.refused.Inc()
		return ErrTooMany
	}
	if !l.clients.enter(client) {
		l.inProgress.Add(-1)
		l.refusedOfClient.Inc()
		return ErrTooManyOfClient
	}
	return nil
}

// Leave ends what Enter began.
func (l *Limiter) Leave(client uint64) {
	if l != nil {
		l.clients.leave(client)
		l.inProgress.Add(-1)
	}
}

// clientCounter counts what each client has in progress in constant memory (a count-min sketch): each client has one
// counter in each of two rows, chosen by hashes that a client cannot predict. A counter that clients share is too high,
// never too low, so a limit always holds. A client is rejected because of others only if both of its counters are full
// of theirs: with 100 clients at their limits, one in 27,000.
type clientCounter struct {
	limit int32
	seeds [2]maphash.Seed
	rows  [2][clientCounters]atomic.Int32
}

const clientCounters = 1 << 14

// newClientCounter returns nil, which counts nothing, if the limit is 0.
func newClientCounter(limit int) *clientCounter {
	if limit == 0 {
		return nil
	}
	return &clientCounter{limit: int32(limit), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (t *clientCounter) counters(key uint64) (a, b *atomic.Int32) {
	return &t.rows[0][maphash.Comparable(t.seeds[0], key)%clientCounters], &t.rows[1][maphash.Comparable(t.seeds[1], key)%clientCounters]
}

func (t *clientCounter) enter(key uint64) bool {
	if t == nil {
		return true
	}
	a, b := t.counters(key)
	if min(a.Add(1), b.Add(1)) > t.limit {
		a.Add(-1)
		b.Add(-1)
		return false
	}
	return true
}

func (t *clientCounter) leave(key uint64) {
	if t == nil {
		return
	}
	a, b := t.counters(key)
	a.Add(-1)
	b.Add(-1)
}

var addressSeed = maphash.MakeSeed()

// ClientAt returns a number for the client at the remote address of a request: for an IPv4 address, or for the /64
// prefix of an IPv6 address, since one client usually has a whole /64.
func ClientAt(remote string) uint64 {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return 0
	}
	addr := at.Addr().Unmap()
	if addr.Is6() {
		addr = netip.PrefixFrom(addr, 64).Masked().Addr()
	}
	return maphash.Comparable(addressSeed, addr)
}

// clientOfConnection is ClientAt for a connection. Each one from loopback is a client of its own.
func clientOfConnection(remote net.Addr) uint64 {
	tcp, is := remote.(*net.TCPAddr)
	if is && tcp.IP.IsLoopback() {
		return maphash.Comparable(addressSeed, tcp.AddrPort())
	}
	return ClientAt(remote.String())
}
