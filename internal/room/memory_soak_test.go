package room_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/room"
	"seckill/internal/room/ledger"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// What a million tickets cost Redis: less than 100 MB.
func TestSoakMemoryOfTickets(t *testing.T) {
	testkit.Soak(t)
	const visitors = 1_000_000
	client := testkit.NewRedis(t).Client(t)
	used := func() int64 {
		n, err := strconv.ParseInt(client.InfoMap(t.Context(), "memory").Item("Memory", "used_memory"), 10, 64)
		fail.NowIf(t, err)
		return n
	}
	l := ledger.New(client, "t:", 0)
	fail.NowIf(t, l.Restore(t.Context(), voucherID, "b", room.Record{Drawn: room.NotDrawn}, time.Hour))
	before, begun := used(), time.Now()
	var next atomic.Int64
	var entering sync.WaitGroup
	for range 64 {
		entering.Go(func() {
			for user := next.Add(1); user <= visitors; user = next.Add(1) {
				c := room.TicketCall{VoucherID: voucherID, UserID: 258_814_886_241_376_173 + 7*user, Shown: -1, Reserved: 2 * visitors, Keep: time.Hour}
				if _, err := l.Ticket(t.Context(), c); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	entering.Wait()
	took, cost := time.Since(begun), used()-before
	t.Logf("%d tickets in %v cost %.1f MB, %d bytes each", visitors, took.Round(time.Second), float64(cost)/1e6, cost/visitors)
	if cost > 100_000_000 {
		t.Errorf("%d tickets cost %d bytes", visitors, cost)
	}
}
