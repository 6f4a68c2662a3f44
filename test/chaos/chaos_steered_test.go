package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// TestSoakChaosSteered is TestChaos while an administrator pauses, resumes, refills, shortens and extends the sale, and
// takes units away, at random. Nobody is sold anything after a pause was told, and every change that was told, and no
// other one that the record does not have, is part of the stock.
func TestSoakChaosSteered(t *testing.T) {
	testkit.Soak(t)
	runChaosOf(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 20), openChaosMariaDB, true)
}

// administrator steers the sale of a round.
type administrator struct {
	c     *chaos
	s     *chaosRound
	rng   *rand.Rand
	stop  chan struct{}
	done  sync.WaitGroup
	told  int // changes that were answered with 200
	start int // the stock before
}

// pauses counts the beginnings and ends of pauses: while it is odd, the sale is paused for all that was told.
type pauses struct{ n atomic.Int64 }

func (c *chaos) administer(s *chaosRound) *administrator {
	a := &administrator{c: c, s: s, rng: rand.New(rand.NewPCG(c.rng.Uint64(), 1)), stop: make(chan struct{}), start: s.stock}
	a.done.Go(func() {
		for {
			select {
			case <-a.stop:
				return
			case <-time.After(rand.N(150 * time.Millisecond)):
				a.step()
			}
		}
	})
	return a
}

// step does one thing.
func (a *administrator) step() {
	switch a.rng.IntN(5) {
	case 0:
		if a.patch(`{"paused":true}`) {
			a.s.pauses.n.Add(1)
			time.Sleep(rand.N(400 * time.Millisecond))
			a.s.pauses.n.Add(1)
		}
		a.patch(`{"paused":false}`)
	case 1:
		a.patch(fmt.Sprintf(`{"stock":{"add":%d}}`, 1+a.rng.IntN(60)))
	case 2:
		a.patch(fmt.Sprintf(`{"stock":{"add":%d}}`, -1-a.rng.IntN(40)))
	case 3:
		a.patch(fmt.Sprintf(`{"end_at":%q}`, time.Now().Add(200*time.Millisecond).Format(time.RFC3339Nano)))
	case 4:
		a.patch(a.open())
	}
}

// open is the change with which the sale goes on.
func (a *administrator) open() string {
	return fmt.Sprintf(`{"title":"t%d","paused":false,"end_at":%q}`, a.rng.IntN(1e6), time.Now().Add(time.Hour).Format(time.RFC3339Nano))
}

// patch changes the voucher, and reports whether that was told. Any process may be asked.
func (a *administrator) patch(body string) bool {
	status, answer := a.call(http.MethodPatch, "", body)
	switch status {
	case http.StatusOK:
		a.told++
		return true
	case 0, http.StatusServiceUnavailable, http.StatusConflict:
		return false
	}
	a.c.t.Errorf("%s: %d %s", body, status, answer)
	return false
}

func (a *administrator) call(method, path, body string) (status int, answer []byte) {
	url := *a.c.urls[a.rng.IntN(len(a.c.urls))].Load() + "/api/v1/vouchers/" + a.s.Voucher + path
	req, err := http.NewRequestWithContext(a.c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		a.c.t.Error(err)
		return 0, nil
	}
	req.Header.Set("If-Match", "*")
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: a.c.client.Transport, Timeout: 15 * time.Second}).Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil
	}
	return resp.StatusCode, answer
}

// end resumes the sale for good. What remains is to be sold, so refusals of before no longer count.
func (a *administrator) end() {
	a.c.t.Helper()
	close(a.stop)
	a.done.Wait()
	testkit.Until(a.c.t, "the sale is resumed", func() bool { return a.patch(a.open()) })
	time.Sleep(3 * time.Second) // longer than a buyer waits for an answer
	a.checkRecord()
	a.s.over.Store(false)
}

// checkRecord reads the changes, and takes the stock from them.
func (a *administrator) checkRecord() {
	var page struct {
		Changes []struct {
			Revision int
			Fields   []struct {
				Field    string
				From, To any
			}
		}
		NextBefore string `json:"next_before"`
	}
	var voucher struct {
		InitialStock int `json:"initial_stock"`
		Revision     int
	}
	a.read("", &voucher)
	stock, records := voucher.InitialStock, 0
	for path := "/changes?limit=100"; path != ""; {
		page.Changes, page.NextBefore = nil, ""
		a.read(path, &page)
		for _, change := range page.Changes {
			if records++; change.Revision != voucher.Revision-records+1 {
				a.c.t.Errorf("revision %d is the %dth of %d", change.Revision, records, voucher.Revision)
			}
			for _, f := range change.Fields {
				if f.Field != "initial_stock" {
					continue
				}
				if to, _ := f.To.(float64); int(to) != stock {
					a.c.t.Errorf("the stock was changed to %v, and was %d then", f.To, stock)
				}
				from, _ := f.From.(float64)
				stock = int(from)
			}
		}
		if path = ""; page.NextBefore != "" {
			path = "/changes?limit=100&before=" + page.NextBefore
		}
	}
	if stock != a.start || records != voucher.Revision-1 {
		a.c.t.Errorf("the record goes back to a stock of %d, and has %d changes; it began with %d, and has revision %d", stock, records, a.start, voucher.Revision)
	}
	a.c.struck["changes told"] += a.told
	a.s.stock = voucher.InitialStock
}

// read reads what belongs to the voucher.
func (a *administrator) read(path string, into any) {
	testkit.Until(a.c.t, "an answer", func() bool {
		status, answer := a.call(http.MethodGet, path, "")
		return status == http.StatusOK && json.Unmarshal(answer, into) == nil
	})
}
