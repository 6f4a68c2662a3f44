package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// requestTimeout is how long a buyer waits for an answer.
const requestTimeout = 20 * time.Second

// Codes of an [Answer] that the service does not send.
const (
	Created = "created" // the order is placed
	Network = "network" // there was no answer
)

// Busy is the service's code for a buyer that did not get the lock.
const Busy = "busy"

// Client sends orders. Several goroutines may use it.
type Client struct{ http *http.Client }

// NewClient returns a client with connections of its own; see [Client.Close].
func NewClient() *Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: onlyLoopback}
	return &Client{http: &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{ // and no proxy
			DialContext:         dialer.DialContext,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 512, // closing connections after a load would cost the next one time at its start
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ErrRemote means that an address is not on this machine.
var ErrRemote = errors.New("load: only this machine is put under load")

// onlyLoopback checks the address after name resolution.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: not %s", ErrRemote, address)
	}
	return nil
}

// Answer is the answer to a buyer.
type Answer struct {
	User     int64
	Instance string // the name of the [Target]
	// Asked and Answered are nanoseconds since 1970.
	Asked, Answered int64
	Status          int // 0 without an answer
	// Code is [Created], [Network] or the code of the problem, such as [Busy] or
	// "sold_out".
	Code  string
	Order int64 // if it is placed
	Try   int   // how many tries came before
	Err   error // why there was no answer
}

// Took is the response time.
func (a Answer) Took() time.Duration { return time.Duration(a.Answered - a.Asked) }

// Buy orders a voucher for a user. Errors are in the answer.
func (c *Client) Buy(ctx context.Context, from Target, voucher, user int64) Answer {
	a := Answer{User: user, Instance: from.Name, Asked: time.Now().UnixNano()}
	var told struct {
		OrderID string `json:"order_id"`
		Code    string `json:"code"`
	}
	path := "/api/v1/vouchers/" + strconv.FormatInt(voucher, 10) + "/orders"
	a.Status, a.Err = c.Do(ctx, from, http.MethodPost, path, user, nil, &told)
	a.Answered = time.Now().UnixNano()
	switch {
	case a.Err != nil:
		a.Code = Network
	case a.Status == http.StatusCreated:
		a.Code = Created
		a.Order, a.Err = strconv.ParseInt(told.OrderID, 10, 64)
	default:
		a.Code = told.Code
	}
	return a
}

// Do calls the API as a user (0: nobody), with a JSON body (nil: none), and decodes the
// answer, whatever its status.
func (c *Client) Do(ctx context.Context, at Target, method, path string, user int64, body io.Reader, answer any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, at.URL+path, body)
	if err != nil {
		return 0, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if user != 0 {
		req.Header.Set("X-User-ID", strconv.FormatInt(user, 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return resp.StatusCode, fmt.Errorf("%s %s: %s with a body that is not understood: %.200q", method, path, resp.Status, data)
	}
	return resp.StatusCode, nil
}
