package admission

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

const (
	// A scan is followed by a pause of pauseFactor times the time that it kept the servers busy, so that scans take
	// about a tenth of the time, however many requests ask for one.
	pauseFactor = 10
	// maxScanPause bounds the pause after a scan, and with it how long a request waits until its scan begins.
	maxScanPause = 250 * time.Millisecond
)

// scanner takes one scan at a time for all callers. A caller gets a scan that begins after its call, so the scan sees
// everything that was pending at the call.
type scanner struct {
	closing context.Context
	spawn   func(work func()) bool
	// take fills in a scan. It returns when the scan is over, and how long the scan kept the servers busy: time spent
	// waiting for a server that does not answer does not count.
	take func(ctx context.Context, s *scan) (busy time.Duration)

	mu         sync.Mutex
	next       *scan     // the scan that callers join; nil while nobody waits
	working    bool      // a goroutine takes scans
	pauseUntil time.Time // no scan begins before
}

// scan is one reading of everything that is pending in all vouchers. Many callers share it.
type scan struct {
	users  map[int64]struct{} // whose orders are wanted; it does not change once the scan has begun
	listed chan struct{}      // closed once err and nodes are set
	err    error              // why nothing is known
	nodes  []nodeScan         // one for each node, in the order in which they answer
}

// nodeScan is the part of a scan that one node answers.
type nodeScan struct {
	done chan struct{} // closed once the answer is set
	nodeAnswer
}

// nodeAnswer is what a node answered to a scan.
type nodeAnswer struct {
	// found are the orders that may not be in the database yet, by user.
	found map[int64][]foundOrder
	// unknown are the buckets that may have such orders beyond those found, for all that Redis says.
	unknown []unknownBucket
	// silent is the error with which the node did not answer in time.
	silent error
}

// foundOrder is an order that a bucket holds, or the error of reading it.
type foundOrder struct {
	*scannedBucket
	ledger.Reservation
}

func (f *foundOrder) of(userID int64) order.Order {
	return pendingOrderOf(f.VoucherID, userID, f.Reservation)
}

// scannedBucket is a bucket of a voucher.
type scannedBucket struct {
	contract.AdmissionVoucher
	number int
	keys   ledger.Keys
}

// unknownBucket is a bucket whose pending orders are not known: Redis does not answer, or has lost them.
type unknownBucket struct {
	*scannedBucket
	err error
}

// missing returns why the node may have an order of the user that it does not show, or nil if it shows all orders.
func (a *nodeAnswer) missing(userID int64) error {
	found := a.found[userID]
	for _, f := range found {
		if f.Err != nil {
			return unavailable(f.Err)
		}
	}
	for _, b := range a.unknown {
		inBucket := func(f foundOrder) bool { return f.VoucherID == b.VoucherID } // a user has one order of a voucher
		if ledger.BucketOf(userID, b.Buckets) == b.number && !slices.ContainsFunc(found, inBucket) {
			return unavailable(b.err)
		}
	}
	return nil
}

// answers yields the answer of each node as soon as it arrives, so a node that hangs comes last. An error is the last
// thing it yields: that of the scan, or of the context.
func (s *scan) answers(ctx context.Context) iter.Seq2[*nodeAnswer, error] {
	return func(yield func(*nodeAnswer, error) bool) {
		err := await(ctx, s.listed)
		if err == nil {
			err = s.err
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range s.nodes {
			n := &s.nodes[i]
			if err := await(ctx, n.done); err != nil {
				yield(nil, err)
				return
			}
			if !yield(&n.nodeAnswer, nil) {
				return
			}
		}
	}
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (s *scan) list(nodes int) {
	s.nodes = make([]nodeScan, nodes)
	for i := range s.nodes {
		s.nodes[i].done = make(chan struct{})
	}
	close(s.listed)
}

func (s *scan) fail(err error) {
	s.err = err
	close(s.listed)
}

// join returns a scan that has not begun yet, and has it look for the user's orders.
func (c *scanner) join(userID int64) *scan {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.next
	if s == nil {
		s = &scan{users: make(map[int64]struct{}), listed: make(chan struct{})}
	}
	s.users[userID] = struct{}{}
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

// end begins the pause after a scan. If the scan failed, the callers that wait for the next one get the same error:
// while the database hangs, nobody waits for longer than one scan takes.
func (c *scanner) end(s *scan, busy time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauseUntil = time.Now().Add(min(pauseFactor*busy, maxScanPause))
	if s.err != nil && c.next != nil {
		c.next.fail(s.err)
		c.next = nil
	}
}
