package harness

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Call sends one request on a connection of its own. The body, if there is one, is JSON.
func Call(t *testing.T, method, url string, header http.Header, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	fail.NowIf(t, err)
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	fail.NowIf(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	fail.NowIf(t, err)
	return resp.StatusCode, string(got)
}

// Ask asks as a user until the answer is not unavailable or busy, as a client does: on a busy machine a server may be
// late, also while an audit takes its lock.
func Ask(t *testing.T, url string, user int) (status int, body string) {
	t.Helper()
	testkit.Until(t, "an answer of "+url, func() bool {
		status, body = Call(t, http.MethodGet, url, http.Header{"X-User-Id": {strconv.Itoa(user)}}, "")
		return status != http.StatusServiceUnavailable && !strings.Contains(body, `"busy"`)
	})
	return status, body
}
