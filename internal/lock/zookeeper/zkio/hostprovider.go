package zkio

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// The pause between two rounds over all servers doubles from firstPause to lastPause.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// hostProvider returns the servers in turn. With the driver's own provider it waits a whole second before it dials the
// only server of a list again; the session may not last so long.
type hostProvider struct {
	over <-chan struct{}

	mu      sync.Mutex
	servers []string
	next    int
	tried   int // since the last success
	pause   time.Duration
}

var _ zk.HostProvider = (*hostProvider)(nil)

// Init implements zk.HostProvider. The dialer resolves names.
func (h *hostProvider) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (h *hostProvider) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next implements zk.HostProvider. If the second result is true, the driver checks whether it was closed and otherwise
// sleeps for a second. That is right for a session that is over.
func (h *hostProvider) Next() (string, bool) {
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

func (h *hostProvider) step() (server string, pause time.Duration) {
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
func (h *hostProvider) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried, h.pause = 0, 0
}
