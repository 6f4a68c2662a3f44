package admission

import (
	"errors"
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
	if sold := rush(t, s, []*Gate{g}, 10); sold != 10 {
		t.Fatal(sold)
	}
	if err := s.client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	dump := filepath.Join(server.Dir(), "dump.rdb")
	old, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	for user := range int64(20) {
		if err := s.buy(g, 100+user, 500+user); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.take(t.Context(), false); n != 30 || err != nil { // all persisted
		t.Fatal(n, err)
	}
	server.Kill()
	if err := os.WriteFile(dump, old, 0o600); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	finish := s.run()
	if err := s.buy(g, 100, 999); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order of a user that Redis had lost: %v", err)
	}
	if err := s.buy(s.gate(nil), 500, 5000); err != nil {
		t.Errorf("a new user: %v", err)
	}
	finish()
	s.balanced(g, 31)
	if s.store.epochState.Epoch <= 2 {
		t.Error("the voucher was not closed in between")
	}
}
