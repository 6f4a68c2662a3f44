package database

import (
	"net"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The server is killed during transactions. Every caller gets an error, the pools recover by themselves, and every
// confirmed order exists.
func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := testkit.NewMariaDB(t)
	c := databaseConfig(server.Database(t))
	conns := make(chan net.Conn, 1000)
	c.MySQL = dialThrough(t, c.MySQL, func(conn net.Conn) net.Conn { conns <- conn; return conn })
	d := openMigrated(t, c)
	createVoucher(t, d, 1, 1_000_000)

	const buyers = 8
	confirmed := make([][]int64, buyers)
	warm := newBarrier(buyers + 1)
	done := make(chan []error)
	go func() {
		done <- runAtOnce(buyers, func(i int) error {
			for n := int64(1); ; n++ {
				id := int64(i)*1_000_000 + n
				if err := placeOrder(t.Context(), d, newOrder(id, 1, id), true); err != nil {
					return err
				}
				confirmed[i] = append(confirmed[i], id)
				if n == 20 {
					if err := warm.wait(t.Context()); err != nil {
						return err
					}
				}
			}
		})
	}()
	fail.NowIf(t, warm.wait(t.Context()))
	server.Kill()
	for _, err := range <-done {
		fail.Unless(t, err, order.ErrUnavailable)
	}
	fail.Unless(t, fail.Of(d.Orders().Order(t.Context(), 1)), order.ErrUnavailable)
	fail.Unless(t, d.Ping(t.Context()), order.ErrUnavailable)

	server.Restart()
	fail.NowIf(t, d.Ping(t.Context()))
	for i := range confirmed {
		for _, id := range confirmed[i] {
			fail.If(t, fail.Of(d.Orders().Order(t.Context(), id)), "order %d was confirmed and is gone", id)
		}
	}
	audit, err := d.Orders().Audit(t.Context(), 1)
	fail.NowIf(t, err)
	if !audit.Balanced() {
		t.Errorf("after recovery: %+v", audit)
	}
	fail.NowIf(t, placeOrder(t.Context(), d, newOrder(99_000_000, 1, 99_000_000), true))

	// It dies while connections are idle in their pools. That the driver cannot say goodbye on them is no failure of a
	// stop.
	server.Kill()
	for _, name := range []string{"readers", "writers"} {
		if d.Pools()[name].Stats().Idle == 0 {
			t.Fatalf("no connection of the %s is idle", name)
		}
	}
	for range len(conns) {
		// The first write is answered by a reset, after which writes fail.
		conn := <-conns
		testkit.Until(t, "the connection is reset", func() bool { _, err := conn.Write([]byte{0}); return err != nil })
	}
	fail.NowIf(t, d.Close())
}
