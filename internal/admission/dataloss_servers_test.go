package admission

import (
	"os"
	"path/filepath"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// A server that is restored from older data has lost orders, and looks intact.
func TestServerRestoredFromOlderData(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "no")
	s := newFixture(t, at(server.Addr()), 100)
	g := s.gate(nil)
	crowd(t, s, []*Gate{g}, usersOf(10, 1, anyBucket))
	must(t, s.client.Save(t.Context()).Err())
	dump := filepath.Join(server.Dir(), "dump.rdb")
	old, err := os.ReadFile(dump)
	must(t, err)
	for user := range int64(20) {
		must(t, s.buy(g, 100+user, 500+user))
	}
	if n, err := s.take(t.Context(), false); n != 30 || err != nil { // all persisted
		t.Fatal(n, err)
	}
	server.Kill()
	must(t, os.WriteFile(dump, old, 0o600))
	server.Restart()
	finish := s.run()
	wantErr(t, "a second order of a user that Redis had lost", s.buy(g, 100, 999), order.ErrAlreadyOrdered)
	wantErr(t, "a new user", s.buy(s.gate(nil), 500, 5000), nil)
	finish()
	s.balanced(g, 31)
	if s.store.epochState.Epoch <= 2 {
		t.Error("the voucher was not closed in between")
	}
}
