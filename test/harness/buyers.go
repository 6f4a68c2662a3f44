package harness

import (
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
)

// Connections is the number of concurrent buyers.
const Connections = 32

// OrderAll sends the orders of all users at once over a bounded number of connections, and counts the answers. orders
// has the user of each accepted order, by order id. during is called after every answer.
func (s *Sale) OrderAll(users, each int, during func(answered int)) (codes, orders map[string]int) {
	return s.OrderAllBy(func(i, user int) Outcome { return s.Buy(i, user, "") }, users, each, during)
}

// OrderAllUntilAnswered is [Sale.OrderAll] for users who send one order each and repeat it under a key until it is
// answered.
func (s *Sale) OrderAllUntilAnswered(users int) (codes, orders map[string]int) {
	return s.OrderAllUnder("key-", users)
}

// OrderAllUnder is [Sale.OrderAllUntilAnswered] with keys that begin with a prefix.
func (s *Sale) OrderAllUnder(prefix string, users int) (codes, orders map[string]int) {
	return s.OrderAllBy(func(i, user int) Outcome { return s.BuyUntilAnswered(i, user, prefix+strconv.Itoa(user)) }, users, 1, nil)
}

// OrderAllBy is [Sale.OrderAll] with another way to send an order.
func (s *Sale) OrderAllBy(send func(i, user int) Outcome, users, each int, during func(answered int)) (codes, orders map[string]int) {
	var mu sync.Mutex
	codes, orders = map[string]int{}, map[string]int{}
	type ask struct{ user, i int }
	asks := make(chan ask)
	var wg sync.WaitGroup
	for range Connections {
		wg.Go(func() {
			for a := range asks {
				got := send(a.i, a.user)
				mu.Lock()
				codes[got.Code]++
				if got.Order != "" {
					orders[got.Order] = a.user
				}
				answered := 0
				for n := range maps.Values(codes) {
					answered += n
				}
				mu.Unlock()
				if during != nil {
					during(answered)
				}
			}
		})
	}
	i := 0
	for user := range users {
		for range each {
			asks <- ask{user + 1, i}
			i++
		}
	}
	close(asks)
	wg.Wait()
	return codes, orders
}

// Again calls do in n goroutines, again and again, until stop is called.
func Again(n int, do func()) (stop func()) {
	over := make(chan struct{})
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					do()
				}
			}
		})
	}
	return func() {
		close(over)
		running.Wait()
	}
}

// Look reads the voucher and returns the status.
func (s *Sale) Look() int { return s.See("/" + s.Voucher) }

// See reads what is at a path below the vouchers, and returns the status.
func (s *Sale) See(path string) int {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, s.URLs[0]+"/api/v1/vouchers"+path, nil)
	if err != nil {
		return 0
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
