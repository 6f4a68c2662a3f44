package service_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A voucher with a waiting room, under either flow: a ticket, a pass, one order with it, and none without one. When the
// room is closed, orders need no pass.
func TestWaitingRoom(t *testing.T) {
	t.Parallel()
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	for _, policy := range []string{`{"room":{"rate":100,"draw_s":0,"pass_s":60}}`, `{"flow":"admission","room":{"rate":100,"draw_s":0,"pass_s":60}}`} {
		const stock = 5
		sale := harness.OpenSale(t, stock, policy, harness.Process{URL: url})
		voucher := url + "/api/v1/vouchers/" + sale.Voucher
		ask := func(user int, method, path string, header http.Header, status int) (answer map[string]any) {
			t.Helper()
			if header == nil {
				header = http.Header{}
			}
			header.Set("X-User-Id", fmt.Sprint(user))
			got, body := harness.Call(t, method, voucher+path, header, "")
			if got != status && (got != http.StatusCreated || status != http.StatusAccepted) { // it may be confirmed by now
				t.Fatalf("%s %s of user %d: %d %s", method, path, user, got, body)
			}
			fail.If(t, json.Unmarshal([]byte(body), &answer))
			return answer
		}
		refused := ask(1, http.MethodPost, "/orders", nil, http.StatusForbidden)
		fail.Unequal(t, refused["code"], any("pass_required"))
		for user := 1; user <= stock+1; user++ {
			ticket, _ := ask(user, http.MethodPost, "/room", nil, http.StatusCreated)["ticket"].(string)
			again, _ := ask(user, http.MethodPost, "/room", http.Header{"Room-Ticket": {ticket}}, http.StatusCreated)["ticket"].(string)
			fail.Unequal(t, again, ticket)
			ask(user+1, http.MethodGet, "/room?ticket="+ticket, nil, http.StatusForbidden)
			var answer map[string]any
			want := "pass"
			if user > stock {
				want = "sold_out"
			}
			for answer["state"] != want {
				if answer["state"] == "pass" {
					t.Fatalf("user %d got a pass, all were sold", user)
				}
				answer = ask(user, http.MethodGet, "/room?wait=20s", http.Header{"Room-Ticket": {ticket}}, http.StatusOK)
			}
			fail.Unequal(t, answer["position"], any(float64(user)))
			if user > stock {
				break
			}
			pass, _ := answer["pass"].(string)
			ask(user+1, http.MethodPost, "/orders", http.Header{"Room-Pass": {pass}}, http.StatusForbidden)
			key := http.Header{"Room-Pass": {pass}, "Idempotency-Key": {"k"}}
			status := http.StatusCreated
			if strings.Contains(policy, "admission") {
				status = http.StatusAccepted
			}
			first := ask(user, http.MethodPost, "/orders", key, status)
			repeated := ask(user, http.MethodPost, "/orders", key, status)
			fail.Unequal(t, repeated["order_id"], first["order_id"])
			spent := ask(user, http.MethodPost, "/orders", http.Header{"Room-Pass": {pass}, "Idempotency-Key": {"other"}}, http.StatusForbidden)
			fail.Unequal(t, spent["order_id"], nil)
			fail.Unequal(t, ask(user, http.MethodGet, "/room?ticket="+ticket, nil, http.StatusOK)["state"], any("ordered"))
		}
		status, body := harness.Call(t, http.MethodPatch, voucher, http.Header{"If-Match": {"*"}}, `{"room":{"rate":7},"stock":{"add":1}}`)
		fail.Unequal(t, status == http.StatusOK && strings.Contains(body, `"rate":7`), true, "%d %s", status, body)
		status, body = harness.Call(t, http.MethodPatch, voucher, http.Header{"If-Match": {"*"}}, `{"room":null}`)
		fail.Unequal(t, status == http.StatusOK && !strings.Contains(body, "room"), true, "%d %s", status, body)
		ask(100, http.MethodGet, "/room", nil, http.StatusNotFound)
		sale.Buy(0, 100, "")
	}
	fail.If(t, s.End())
}
