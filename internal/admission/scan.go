package admission

import (
	"context"
	"sync"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

const (
	// A scan is followed by a pause of pauseFactor times the time that it kept the servers busy, so
	// that scans take about a tenth of the time, however many requests ask for one.
	pauseFactor = 10
	// maxScanPause bounds that pause, and with it how long a request waits until its scan begins.
	maxScanPause = 250 * time.Millisecond
)

// scanner takes one scan at a time for all callers. A caller gets a scan that begins after its call,
// so the scan sees everything that was there at the call.
type scanner struct {
	closing context.Context
	spawn   func(work func()) bool
	// take fills in a scan. It returns when the scan is over, and how long the scan kept the servers
	// busy: time spent waiting for a server that does not answer does not count.
	take func(ctx context.Context, s *scan) (busy time.Duration)

	mu         sync.Mutex
	next       *scan     // the scan that callers join; nil while nobody waits
	working    bool      // a goroutine takes scans
	pauseUntil time.Time // no scan begins before
}

// scan is one reading of what is pending in all vouchers, shared by many callers.
type scan struct {
	listed chan struct{} // closed once err and nodes are set
	err    error         // why nothing is known
	nodes  []*nodeScan
}

// nodeScan is the part of a scan that one node answers.
type nodeScan struct {
	all  []scannedBucket
	done chan struct{} // closed once the rest is set

	// pending are the buckets with orders that may not be in the database yet.
	pending []scannedBucket
	// unknown are the buckets that may have such orders, for all that Redis says.
	unknown []unknownBucket
}

// scannedBucket is a bucket of a voucher.
type scannedBucket struct {
	order.AdmissionVoucher
	number int
	keys   ledger.Keys
}

// has reports whether a user belongs to the bucket.
func (b *scannedBucket) has(userID int64) bool { return ledger.BucketOf(userID, b.Buckets) == b.number }

// unknownBucket is a bucket of which Redis does not say, or does not know, what is pending.
type unknownBucket struct {
	scannedBucket
	err error
}

// wait waits until the scan is listed, or the caller's context ends.
func (s *scan) wait(ctx context.Context) error {
	select {
	case <-s.listed:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *scan) list(nodes []*nodeScan) {
	s.nodes = nodes
	close(s.listed)
}

func (s *scan) fail(err error) {
	s.err = err
	close(s.listed)
}

// join returns a scan that has not begun yet.
func (c *scanner) join() *scan {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.next
	if s == nil {
		s = &scan{listed: make(chan struct{})}
	}
	if c.closing.Err() != nil || !c.working && !c.spawn(c.work) {
		if c.next == nil { // otherwise the goroutine at work takes it, or fails it
			s.fail(unavailable(errClosed))
		}
		return s
	}
	c.next, c.working = s, true
	return s
}

// work takes scans until nobody waits for one.
func (c *scanner) work() {
	for s := c.begin(); s != nil; s = c.begin() {
		busy := c.take(c.closing, s)
		c.end(s, busy)
	}
}

// begin returns the next scan after the pause, or nil if nobody waits for it.
func (c *scanner) begin() *scan {
	c.mu.Lock()
	pause := time.NewTimer(time.Until(c.pauseUntil))
	c.mu.Unlock()
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-c.closing.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.next
	c.next, c.working = nil, s != nil
	return s
}

// end begins the pause after a scan. If the scan failed, the callers that wait for the next one get
// the same error: while the database hangs, nobody waits for longer than one scan takes.
func (c *scanner) end(s *scan, busy time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauseUntil = time.Now().Add(min(pauseFactor*busy, maxScanPause))
	if s.err != nil && c.next != nil {
		c.next.fail(s.err)
		c.next = nil
	}
}
