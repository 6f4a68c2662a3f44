package zkio

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// The pause between two rounds of all servers doubles from the first to the second.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// hosts names the servers in turn. The driver's own provider makes it wait a whole
// second before it dials the only server of a list again, which may be all that is
// left of a session.
type hosts struct {
	over <-chan struct{}

	mu      sync.Mutex
	servers []string
	next    int
	tried   int // since the last success
	pause   time.Duration
}

var _ zk.HostProvider = (*hosts)(nil)

// Init implements zk.HostProvider. Names are looked up by whoever dials.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next implements zk.HostProvider. The second result makes the driver look whether
// it was closed, and sleep for a second if not: that suits a session that is over.
func (h *hosts) Next() (string, bool) {
	server, pause := h.step()
	select {
	case <-h.over:
		return server, true
	default:
	}
	if pause > 0 {
		select {
		case <-h.over:
			return server, true
		case <-time.After(pause):
		}
	}
	return server, false
}

func (h *hosts) step() (server string, pause time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	if h.tried++; h.tried > len(h.servers) {
		h.tried = 1
		h.pause = min(max(2*h.pause, firstPause), lastPause)
		return server, h.pause
	}
	return server, 0
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.pause = 0, 0
}
