package chaos

import (
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"seckill/test/harness"
)

// The things that a buyer does with an order.
const (
	doPay = iota
	doPayTwice
	doCancel
	doAbandon
	doPayAndCancel
	doCancelAndPay
	doPayAndBeRefunded
	doings
)

// buyer is one buyer, from the order to what becomes of it.
func (c *lifecycleChaos) buyer(r *lifecycleRound) {
	user := int(c.users.Add(1))
	id := c.order(r, user)
	if id == "" {
		return
	}
	what := rand.IntN(doings)
	if what == doAbandon {
		return
	}
	if what == doCancel {
		c.move(user, id, "cancel")
		return
	}
	var p struct {
		URL string `json:"pay_url"`
	}
	status, body := c.move(user, id, "payment")
	if status != http.StatusCreated { // it has expired
		return
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		c.t.Errorf("%s: %v", body, err)
		return
	}
	switch what {
	case doPay:
		c.press(p.URL)
	case doPayTwice:
		both := sync.WaitGroup{}
		for range 2 {
			both.Go(func() { c.press(p.URL) })
		}
		both.Wait()
		c.move(user, id, "payment")
	case doPayAndCancel:
		var both sync.WaitGroup
		both.Go(func() { c.press(p.URL) })
		c.move(user, id, "cancel")
		both.Wait()
	case doCancelAndPay:
		c.move(user, id, "cancel")
		c.press(p.URL)
	case doPayAndBeRefunded:
		c.press(p.URL)
		c.insist(user, http.MethodGet, "/api/v1/orders/"+id+"?wait=2s&state=unpaid", nil) // for the money, whose event may be lost
		c.move(user, id, "refund")
	}
}

// order places a user's order and waits until it is in the database; "" if there is none.
func (c *lifecycleChaos) order(r *lifecycleRound, user int) (id string) {
	key := http.Header{"Idempotency-Key": {"key-" + strconv.Itoa(user)}}
	status, body := c.insist(user, http.MethodPost, "/api/v1/vouchers/"+r.Voucher+"/orders", key)
	var o struct {
		ID     string `json:"order_id"`
		Status string
	}
	switch status {
	case http.StatusCreated, http.StatusAccepted:
		if err := json.Unmarshal([]byte(body), &o); err != nil {
			c.t.Errorf("%s: %v", body, err)
			return ""
		}
	case http.StatusConflict:
		if !strings.Contains(body, `"sold_out"`) {
			c.t.Errorf("user %d was told %s", user, body)
		}
		return ""
	default:
		if c.t.Context().Err() == nil {
			c.t.Errorf("user %d was told %d %s", user, status, body)
		}
		return ""
	}
	r.mu.Lock()
	r.orders[o.ID] = user
	r.mu.Unlock()
	for o.Status == "pending" && c.t.Context().Err() == nil {
		status, body = c.insist(user, http.MethodGet, "/api/v1/orders/"+o.ID+"?wait=1s&state=pending", nil)
		if status != http.StatusOK {
			c.t.Errorf("order %s of user %d: %d %s", o.ID, user, status, body)
			return ""
		}
		if err := json.Unmarshal([]byte(body), &o); err != nil {
			c.t.Errorf("%s: %v", body, err)
			return ""
		}
	}
	return o.ID
}

// move asks for a move of an order until the answer is one. That it is too late for the move is an answer, too.
func (c *lifecycleChaos) move(user int, order, what string) (status int, body string) {
	status, body = c.insist(user, http.MethodPost, "/api/v1/orders/"+order+"/"+what, nil)
	switch {
	case status/100 == 2, c.t.Context().Err() != nil:
	case status == http.StatusConflict && strings.Contains(body, `"not_`): // not_payable, not_cancellable, not_refundable
	default:
		c.t.Errorf("%s of order %s: %d %s", what, order, status, body)
	}
	return status, body
}

// insist repeats a request of a user, to one process after the other, until it is answered.
func (c *lifecycleChaos) insist(user int, method, path string, header http.Header) (status int, body string) {
	for begun, n := time.Now(), user; c.t.Context().Err() == nil; n++ {
		status, body = c.send(method, *c.urls[n%len(c.urls)].Load()+path, user, header, "")
		switch {
		case status == 0, status == http.StatusServiceUnavailable, strings.Contains(body, `"busy"`):
		default:
			return status, body
		}
		if time.Since(begun) > harness.Patience {
			c.t.Errorf("%s %s of user %d never had an answer, but %d %s", method, path, user, status, body)
			return status, body
		}
		time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
	}
	return status, body
}

// press presses the button on a payment page until the page has answered.
func (c *lifecycleChaos) press(page string) {
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for begun := time.Now(); c.t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
		status, body := c.send(http.MethodPost, page, 0, form, url.Values{"decision": {"pay"}}.Encode())
		if status == http.StatusSeeOther {
			return
		}
		if status != 0 || time.Since(begun) > harness.Patience {
			c.t.Errorf("the payment page: %d %s", status, body)
			return
		}
	}
}

// send sends one request; the status is 0 without an answer.
func (c *lifecycleChaos) send(method, address string, user int, header http.Header, body string) (status int, answer string) {
	return c.sendWith(c.client, method, address, user, header, body)
}

func (c *lifecycleChaos) sendWith(client *http.Client, method, address string, user int, header http.Header, body string) (status int, answer string) {
	req, err := http.NewRequestWithContext(c.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	maps.Copy(req.Header, header)
	if user != 0 {
		req.Header.Set("X-User-ID", strconv.Itoa(user))
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}
