package pressure

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// floodedMemory is how much a flood may cost, in bytes, and floodedP99 how long another's order may take then.
const (
	floodedMemory = 400 << 20
	floodedP99    = time.Second
)

// flood is what a hostile client does on each of its connections.
type flood struct {
	Name string
	// Send is written to the connection; "" sends nothing.
	Send string
	// Unread: the answers are not read.
	Unread bool
}

func floods(voucher, order string) []flood {
	get := func(path string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nX-User-ID: 666\r\n\r\n"
	}
	return []flood{
		{"list", get("/api/v1/vouchers?limit=100"), false},
		{"list, not read", strings.Repeat(get("/api/v1/vouchers?limit=100"), 20), true},
		{"unknown order", get("/api/v1/orders/77"), false},
		{"wait for an order", get("/api/v1/orders/" + order + "?wait=30s"), false},
		{"orders of one user", "POST /api/v1/vouchers/" + voucher + "/orders HTTP/1.1\r\nHost: localhost\r\nX-User-ID: 666\r\nContent-Length: 0\r\n\r\n", false},
		{"nothing sent", "", true},
		{"half a header", "GET /api/v1/vouchers HTTP/1.1\r\nHost: localhost\r\nX-Pad: " + strings.Repeat("x", 4000), true},
		{"short header lines", "GET /api/v1/vouchers HTTP/1.1\r\nHost: localhost\r\n" + shortLines(4000), false},
	}
}

// shortLines are n header lines of five bytes, each with another name, which net/http keeps in a map until the header
// ends.
func shortLines(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var lines strings.Builder
	for i := range n {
		lines.Write([]byte{letters[i%26], letters[i/26%26], letters[i/26/26%26], ':', '\n'})
	}
	return lines.String()
}

// A hostile client with thousands of connections and concurrent requests costs the service a bounded amount of memory,
// and other buyers are served.
func TestHostileClient(t *testing.T) {
	t.Parallel()
	runHostileClient(t, 2_000, 20, nil)
}

func TestSoakHostileClient(t *testing.T) {
	testkit.Soak(t)
	runHostileClient(t, 10_000, 100, harness.NewFigures(t))
}

func runHostileClient(t *testing.T, connections, buyers int, figures *harness.Figures) {
	a := harness.Start(t, harness.NewStores(t))
	sale := harness.OpenSale(t, 1_000_000, harness.AdmissionPolicy, a)
	for range 100 {
		harness.OpenSale(t, 100, harness.AdmissionPolicy, a)
	}
	placed := sale.BuyUntilAnswered(0, 666, "first")
	fail.NowUnequal(t, placed.Code, "accepted")
	user := 1000
	for _, f := range floods(sale.Voucher, placed.Order) {
		t.Run(f.Name, func(t *testing.T) {
			hostile := hostileClient{f, strings.TrimPrefix(a.URL, "http://"), connections}.start(t)
			for range buyers {
				user++
				begun := time.Now()
				fail.Unequal(t, sale.BuyUntilAnswered(0, user, "key-"+strconv.Itoa(user)).Code, "accepted", "another buyer")
				figures.Took("another's order, "+f.Name, time.Since(begun), floodedP99)
			}
			fail.If(t, hostile.Stop(), "the hostile client")
			peak := peakMemory(t, a.PID())
			t.Logf("%d connections: at most %d MB so far", connections, peak>>20)
			if peak > floodedMemory {
				t.Errorf("%d MB; want %d MB at most", peak>>20, floodedMemory>>20)
			}
		})
	}
}

// hostileClient floods the service at Addr. It is a process of its own: what it takes of the processor does not delay
// the buyers' clock in this one.
type hostileClient struct {
	Flood       flood
	Addr        string
	Connections int
}

// hostileEnv has the client as JSON.
const hostileEnv = "SECKILL_TEST_HOSTILE_CLIENT"

// start starts the client, and returns it when each of its connections has begun. It floods until it is stopped.
func (c hostileClient) start(t *testing.T) *testkit.Process {
	t.Helper()
	text, err := json.Marshal(c)
	fail.NowIf(t, err)
	p := testkit.StartChild(t, "hostile client", hostileEnv+"="+string(text))
	p.WaitLine(t, "^all connections have begun$")
	return p
}

// beHostile is the process of a hostileClient. It returns the exit code.
func beHostile() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var c hostileClient
	if err := json.Unmarshal([]byte(os.Getenv(hostileEnv)), &c); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	var all, begun sync.WaitGroup
	begun.Add(c.Connections)
	for range c.Connections {
		all.Go(func() { c.Flood.run(ctx, c.Addr, begun.Done) })
	}
	begun.Wait()
	fmt.Println("all connections have begun")
	all.Wait()
	return 0
}

// run opens one connection, calls begun, and floods until ctx ends. After a rejection it starts again after a while, as
// any client would.
func (f flood) run(ctx context.Context, addr string, begun func()) {
	once := sync.OnceFunc(begun)
	defer once()
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			_, err = io.WriteString(c, f.Send)
			once()
			if f.Unread {
				<-ctx.Done()
			} else if err == nil {
				f.read(ctx, c)
			}
			stop()
			_ = c.Close()
		}
		once()
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// read reads answers, and sends the next request after each, until the connection ends.
func (f flood) read(ctx context.Context, c net.Conn) {
	r := bufio.NewReaderSize(c, 512)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if _, err := io.WriteString(c, f.Send); err != nil {
			return
		}
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the peak memory of a process, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("how much memory a process has is not known here: %v", err)
	}
	found := highWater.FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in %s", status)
	}
	kb, err := strconv.ParseInt(string(found[1]), 10, 64)
	fail.NowIf(t, err)
	return kb << 10
}
