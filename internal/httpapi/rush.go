package httpapi

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/httpserver"
	"seckill/internal/order"
)

// Bounds of a rush.
const (
	maxRush = 5000
	// rushAtOnce is the number of simulated buyers whose orders are in progress at the same time.
	rushAtOnce = 200
	// rushTime leaves the request, which has requestTimeout, time to answer.
	rushTime = time.Minute
	// firstRushBuyer is above the numbers that the buyers' page draws.
	firstRushBuyer = 1 << 40
)

// rushJSON is what became of the simulated buyers.
type rushJSON struct {
	Buyers   int              `json:"buyers"`
	Sent     int              `json:"sent"`
	TookMS   int64            `json:"took_ms"`
	Outcomes map[string]int64 `json:"outcomes"`
}

// rush is POST /api/v1/vouchers/{id}/rush: simulated buyers who order once each, as fast as they are answered. Their
// orders take the same way as all others, from the routes on, and are as real. It is answered when all are answered;
// only one rush runs at a time.
func (a *API) rush(ctx context.Context, r *request) (reply, error) {
	if !a.cfg.Lab {
		return reply{}, errLabOnly
	}
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	body, err := r.readJSON()
	if err != nil {
		return reply{}, err
	}
	var buyers int64
	if err := decodeObject(body, func(o *object) { o.integer("buyers", &buyers) }); err != nil {
		return reply{}, err
	}
	if buyers < 1 || buyers > maxRush {
		return reply{}, invalid("buyers is %d; 1 to %d", buyers, maxRush)
	}
	if _, err := a.deps.Vouchers.Voucher(ctx, id); err != nil {
		return reply{}, err
	}
	if !a.rushing.CompareAndSwap(false, true) {
		return reply{}, order.ErrBusy
	}
	defer a.rushing.Store(false)
	ctx, cancel := context.WithTimeout(ctx, rushTime)
	defer cancel()
	defer context.AfterFunc(a.waits, cancel)() // a stop does not wait for simulated buyers
	a.live.count(id, func(s *liveSale) { s.rushes++ })
	return a.render(http.StatusOK, a.sendRush(ctx, id, int(buyers)))
}

func (a *API) sendRush(ctx context.Context, voucherID int64, buyers int) rushJSON {
	out := rushJSON{Buyers: buyers, Outcomes: map[string]int64{}}
	first := firstRushBuyer + rand.Int64N(1<<52)
	began := time.Now()
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(rushAtOnce)
	for i := range buyers {
		if ctx.Err() != nil {
			break
		}
		all.Go(func() error {
			outcome := a.orderFor(ctx, voucherID, first+int64(i))
			mu.Lock()
			defer mu.Unlock()
			out.Sent++
			out.Outcomes[outcome]++
			return nil
		})
	}
	_ = all.Wait() // no error: what went wrong is an outcome
	out.TookMS = time.Since(began).Milliseconds()
	return out
}

// orderFor places an order as the client of a buyer would, and returns its status or the code of the refusal.
func (a *API) orderFor(ctx context.Context, voucherID, user int64) (outcome string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/vouchers/"+formatID(voucherID)+"/orders", http.NoBody)
	if err != nil {
		return a.problems.internal.code
	}
	req.Host, req.RemoteAddr = "localhost", "127.0.0.1:0"
	req.Header.Set("X-User-ID", formatID(user))
	w := httpserver.NewRecorder()
	a.public.ServeHTTP(w, req)
	var answer struct{ Code, Status any }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		return a.problems.internal.code
	}
	if code, ok := answer.Code.(string); ok {
		return code
	}
	status, _ := answer.Status.(string)
	return status
}
