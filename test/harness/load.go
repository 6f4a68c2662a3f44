package harness

import (
	"io"
	"net/http"
	"sync"
)

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
