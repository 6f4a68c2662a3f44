package pages

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// consoleHasARoom puts a voucher with a waiting room on sale, sees who waits, and lets in faster, then everybody.
func consoleHasARoom(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	v := visit(b, t, url+"/console", "en")
	v.until("the first voucher is watched", `document.getElementById('verdict').textContent.startsWith('It adds up')`)
	fail.Unequal(t, v.says(`document.getElementById('room').hidden`), "true", "a voucher without a room shows one")
	v.do(`document.getElementById('title').value = 'Tea'; document.getElementById('with-room').click();
		document.getElementById('begins').value = '3600'; document.getElementById('draw_s').value = '7200'`)
	v.until("the policy has the room", `JSON.parse(document.getElementById('json').textContent).room.rate === 100`)
	v.do(`document.querySelector('#offer .go').click()`)
	v.until("its room is shown", `document.querySelector('#sale option:checked')?.textContent === 'Tea' && !document.getElementById('room').hidden`)
	orders := url + "/api/v1/vouchers/" + v.says(`document.getElementById('sale').value`) + "/orders"
	for user := range 3 {
		atRoom(t, orders, http.MethodPost, fmt.Sprint(500+user), "")
	}
	v.until("three have arrived", `document.getElementById('room-figures').textContent.startsWith('Arrived3Waiting3')`)
	v.until("it can be steered", `!document.getElementById('room-rate').disabled`)
	fail.Unequal(t, v.says(`document.getElementById('room-rate-is').textContent`), "Let in, per second: 100", "the rate")
	v.accessible("a console with a room")
	v.do(`document.getElementById('room-rate').value = '3'; for (const type of ['input', 'change']) document.getElementById('room-rate').dispatchEvent(new Event(type))`)
	v.until("the change is listed", `document.getElementById('changes').textContent.includes('let in, per second 100 → 1,000')`)
	if _, body := harness.Call(t, http.MethodGet, strings.TrimSuffix(orders, "/orders"), nil, ""); !strings.Contains(body, `"rate":1000`) {
		t.Errorf("the voucher: %s", body)
	}
	v.until("it can be copied", `!document.getElementById('steer-copy').disabled`)
	v.do(`document.getElementById('steer-copy').click()`)
	fail.Unequal(t, v.says(`['rate', 'draw_s', 'pass_s'].map((id) => document.getElementById(id).value).join()`), "1000,7200,60", "the copy")
	shotsOf(t, v, "console-room", "#room")
	v.do(`document.getElementById('room-close').click()`)
	v.until("the room is closed", `document.getElementById('room').hidden && document.getElementById('changes').textContent.includes('waiting room closed')`)
	v.untroubled(url)
}
