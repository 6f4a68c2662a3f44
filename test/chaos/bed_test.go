package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// bed is a service of two processes, its buyers, and the faults that strike it.
type bed struct {
	t      *testing.T
	rng    *rand.Rand
	begun  time.Time
	apis   [2]harness.Process
	urls   [2]atomic.Pointer[string] // of apis, for the buyers
	client *http.Client
	users  atomic.Int64
	deck   []strike
	struck map[string]int
}

// strike is a fault. It is over when the function returns.
type strike func()

// strikes is the number of faults in a round.
const strikes = 3

// openBed reads the seed, which determines the strikes and their targets, but not the state of the service when they
// happen.
func openBed(t *testing.T, rounds int) *bed {
	t.Helper()
	seed := harness.Number(t, "SECKILL_TEST_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("SECKILL_TEST_ROUNDS=%d SECKILL_TEST_SEED=%d", rounds, seed)
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * harness.Connections}
	t.Cleanup(transport.CloseIdleConnections)
	return &bed{
		t: t, rng: rand.New(rand.NewPCG(uint64(seed), 0)), begun: time.Now(), struck: map[string]int{},
		client: &http.Client{
			Transport: transport, Timeout: 2 * time.Second, // a buyer whose process is paused tries the other one
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// serve starts a process.
func (b *bed) serve(i int, where harness.Stores) {
	b.t.Helper()
	p := harness.Start(b.t, where)
	b.apis[i] = p
	b.urls[i].Store(&p.URL)
}

// deal waits for a random moment of the load within a time, and returns the next strike. They are dealt like cards, so
// that also a short run has each kind: the hands of a deck come one after the other, each of them shuffled.
func (b *bed) deal(within time.Duration, hands func() [][]strike) (next strike) {
	b.t.Helper()
	if len(b.deck) == 0 {
		for _, hand := range hands() {
			b.rng.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
			b.deck = append(b.deck, hand...)
		}
	}
	time.Sleep(20*time.Millisecond + b.upTo(within))
	next, b.deck = b.deck[0], b.deck[1:]
	return next
}

func (b *bed) upTo(d time.Duration) time.Duration { return time.Duration(b.rng.Int64N(int64(d))) }

// wait waits for a random time, up to longer than any timeout.
func (b *bed) wait() { time.Sleep(50*time.Millisecond + b.upTo(2500*time.Millisecond)) }

// stop pauses a target for a while.
func (b *bed) stop(name string, target interface {
	Pause()
	Resume()
},
) {
	b.struck["SIGSTOP "+name]++
	target.Pause()
	b.wait()
	target.Resume()
}

// summary lists how often each target was hit.
func (b *bed) summary() string {
	n := 0
	for _, one := range b.struck {
		n += one
	}
	return fmt.Sprintf("%v, %d strikes %v", time.Since(b.begun).Round(time.Second), n, b.struck)
}

// checkAlive ends the test if a process has ended by itself.
func (b *bed) checkAlive() {
	b.t.Helper()
	for i, p := range b.apis {
		select {
		case <-p.Done():
			b.t.Fatalf("process %d ended by itself: %v\n%s", i, p.Wait(), p.Output())
		default:
		}
	}
}

// end stops both processes.
func (b *bed) end() {
	b.t.Helper()
	for i, p := range b.apis {
		fail.If(b.t, p.Stop(), "process %d", i)
	}
}
