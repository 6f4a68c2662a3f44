package experiments

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
)

const (
	// waitersAtRelease is how many buyers wait while another one holds the lock, each in its
	// own process.
	waitersAtRelease = 4
	// wakeHoldTime is how long each buyer holds it, and wakeWaitLimit a wait limit that none
	// reaches.
	wakeHoldTime  = 100 * time.Millisecond
	wakeWaitLimit = 20 * time.Second
)

// herds are the experiments about who wakes when a lock is released.
func herds() []comparison {
	setup := func(mechanism string) lab.Setup { return lab.Setup{Policy: policyFor(mechanism, 0, wakeWaitLimit)} }
	return []comparison{{
		text: "wake-ups", scenario: countWakeUps, needs: []testbed.Server{testbed.ZooKeeper}, quiet: true, cases: []setupCase{
			{id: "zk-herd", setup: setup("zk-node"), breaks: kinds{finding.Herds}},
			{id: "zk-queue-wakes-one", setup: setup("zk-queue"), holds: kinds{finding.Herds}},
		}, parameters: []lab.Parameter{buyers(1+waitersAtRelease, 3, 12)},
	}}
}

// waiter is a buyer in its own process.
type waiter struct {
	who string
	*lockclient.Client
	*relay
}

// countWakeUps makes buyers wait for a lock, and counts the waiters that each release wakes.
func countWakeUps(t *lab.Trial, setup lab.Setup) {
	c := newClients(t, setup)
	waiters := make([]*waiter, cmp.Or(setup.Buyers, 1+waitersAtRelease))
	for i := range waiters {
		w := &waiter{who: fmt.Sprintf("buyer %d", i+1), relay: newRelay(t, t.ZooKeeper().Addr())}
		w.Client = c.start(fmt.Sprintf("process-%d", i+1), c.useLockServers, func(config *lockclient.Config) {
			config.ZooKeeperAddrs = []string{w.addr()}
		})
		waiters[i] = w
	}
	c.observe()

	holder := waiters[0]
	g := c.take(holder.Client, c.request(holder.who))
	var left []func()
	for _, w := range waiters[1:] {
		left = append(left, t.Go(func() {
			g := c.take(w.Client, c.request(w.who))
			t.Sleep(wakeHoldTime)
			c.release(w.Client, g.Lease)
		}))
		c.await(w.who+" to ask", requestedBy(w.who))
		t.Until(w.who+" to watch", w.watches)
	}
	t.Sleep(wakeHoldTime)
	c.release(holder.Client, g.Lease)
	for _, wait := range left {
		wait()
	}
	c.judgeReleases(waiters)
}

// woke is one release, and the waiters that it woke.
type woke struct {
	moments  []witness.Moment
	vain     int // of moments: waiters that did not get in
	requests int // of the waiters that woke in vain
}

// judgeReleases reads the releases from the event log, and the waiters that each release woke
// from the relays: those that the server notified before the next release, except for the
// releaser. The next holder is among them and is notified before it can acquire and release,
// so nobody is counted twice.
func (c *clients) judgeReleases(waiters []*waiter) {
	evidence := c.evidence()
	releases := turns(evidence.Events)
	herds, most := 0, 0
	behind := len(waiters) - 1
	var all woke
	story := witness.Story{Key: c.key, From: releases[0].grant.Began}
	for i, turn := range releases[:len(releases)-1] { // nobody waits for the last one
		w := turn.wakes(waiters, releases[i+1])
		if len(w.moments) > 1 {
			herds++
		}
		most = max(most, len(w.moments))
		all.moments, all.vain, all.requests = append(all.moments, w.moments...), all.vain+w.vain, all.requests+w.requests
		story.To = releases[i+1].release.At
	}
	for _, w := range waiters {
		story.Who = append(story.Who, w.who)
	}
	wakes := len(all.moments)
	c.Found(finding.Herds, herds)
	c.Measure(i18n.F("woken by a release, on average"), math.Round(10*float64(wakes)/float64(behind))/10, i18n.F("waiters"))
	c.Measure(i18n.F("woken by a release, at most"), float64(most), i18n.F("waiters"))
	c.Measure(i18n.F("requests of buyers woken in vain"), float64(all.requests), i18n.F("requests"))
	story.Moments = all.moments
	story.Summary = i18n.F("At %s buyer 1 releases the lock, and %d buyers wait for it. Each release wakes one of them, whose turn it is: %d wake-ups for %d turns.",
		witness.At(releases[0].release.At), behind, wakes, behind)
	if herds > 0 {
		story.Kind = finding.Herds
		story.Summary = i18n.F("At %s buyer 1 releases the lock, and %d buyers wait for it. A release wakes as many as %d waiters. In all there are %d wake-ups, and %d of them are in vain.",
			witness.At(releases[0].release.At), behind, most, wakes, all.vain)
	}
	c.Witness(witness.Tell(evidence, story))
	c.Judge(evidence)
}

// turn is a grant and its release.
type turn struct{ grant, release eventlog.Event }

// turns returns all of them, in the order of the grants.
func turns(events []eventlog.Event) []turn {
	var all []turn
	for _, e := range sorted(events) {
		switch e.Kind {
		case eventlog.Acquired:
			all = append(all, turn{grant: e})
		case eventlog.Releasing:
			for i := range all {
				if all[i].grant.Who == e.Who {
					all[i].release = e
				}
			}
		}
	}
	return all
}

// wakes returns the waiters that woke at the end of a turn.
func (t turn) wakes(waiters []*waiter, next turn) woke {
	var w woke
	for _, one := range waiters {
		at, told := one.wokenIn(t.release.At, next.release.At)
		if one.who == t.release.Who || !told {
			continue
		}
		m := witness.Moment{Who: one.who, At: at, Kind: finding.Wakes, Label: i18n.F("wakes")}
		if one.who != next.grant.Who {
			m.Label, m.Wrong = i18n.F("in vain"), true
			w.vain++
			w.requests += one.requestsIn(t.release.At, next.release.At)
		}
		w.moments = append(w.moments, m)
	}
	return w
}

// relay forwards the traffic between one process and ZooKeeper, and reads it: when the server
// notifies the process about a watch, and when the process makes requests.
type relay struct {
	trial    *lab.Trial
	upstream string
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	open     []net.Conn
	watching map[int32]bool // by request that sets a watch: whether it was answered
	woken    []int64        // when the process was notified
	requests []int64        // when it made a request, other than heartbeats
}

// ZooKeeper's protocol: a frame is its length, 4 bytes, and a body. From a client the body is
// the number of the request, its type and its arguments; from the server it is the number of
// the request, a zxid of 8 bytes and an error code. The first frame each way has none of that.
// A reading request may set a watch, in its last byte.
const (
	relayFrame  = 1 << 20 // no request or answer is longer
	pingNumber  = -2
	watchNumber = -1 // of notifications
	readExists  = 3
	readData    = 4
)

// newRelay starts a relay to ZooKeeper for one process.
func newRelay(t *lab.Trial, upstream string) *relay {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("a relay to ZooKeeper: %w", err)
	}
	r := &relay{trial: t, upstream: upstream, listener: listener, watching: map[int32]bool{}}
	r.running.Go(r.serve)
	t.Cleanup(r.close)
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) close() {
	_ = r.listener.Close() // no longer in use: its client has ended
	r.mu.Lock()
	for _, conn := range r.open {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *relay) serve() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(r.trial.Context(), "tcp", r.upstream)
		if err != nil {
			_ = client.Close() // this tells the client
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, client, server)
		r.mu.Unlock()
		r.running.Go(func() { r.pass(server, client, r.readRequest) })
		r.running.Go(func() { r.pass(client, server, r.readReply) })
	}
}

// pass copies frames until one side closes its connection, and then closes the other.
func (r *relay) pass(to, from net.Conn, read func(frame []byte)) {
	defer to.Close()
	in := bufio.NewReader(from)
	for greeted := false; ; greeted = true {
		frame, err := readFrame(in)
		if err != nil {
			return
		}
		if greeted {
			read(frame[4:])
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

var errFrame = errors.New("not a frame of ZooKeeper's")

// readFrame reads one frame, including its length.
func readFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n > relayFrame {
		return nil, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	frame := make([]byte, 4+n)
	_, err = io.ReadFull(in, frame)
	return frame, err
}

// readRequest reads a request.
func (r *relay) readRequest(frame []byte) {
	if len(frame) < 8 {
		return
	}
	number, what := int32(binary.BigEndian.Uint32(frame)), binary.BigEndian.Uint32(frame[4:])
	if number == pingNumber {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, time.Now().UnixNano())
	if (what == readExists || what == readData) && frame[len(frame)-1] == 1 {
		r.watching[number] = false
	}
}

// readReply reads a reply or a notification of the server.
func (r *relay) readReply(frame []byte) {
	if len(frame) < 4 {
		return
	}
	number := int32(binary.BigEndian.Uint32(frame))
	r.mu.Lock()
	defer r.mu.Unlock()
	if number == watchNumber {
		r.woken = append(r.woken, time.Now().UnixNano())
	}
	if _, asked := r.watching[number]; asked {
		r.watching[number] = true
	}
}

// watches reports whether the process watches a node and every request to set a watch has
// been answered.
func (r *relay) watches() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, answered := range r.watching {
		if !answered {
			return false
		}
	}
	return len(r.watching) > 0
}

// wokenIn returns the first time in a period at which the process was notified.
func (r *relay) wokenIn(from, to int64) (at int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.woken {
		if at >= from && at < to {
			return at, true
		}
	}
	return 0, false
}

// requestsIn returns how many requests the process made in a period.
func (r *relay) requestsIn(from, to int64) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.requests {
		if at >= from && at < to {
			n++
		}
	}
	return n
}
