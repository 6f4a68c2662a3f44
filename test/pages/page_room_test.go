package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// atRoom calls the waiting room of a voucher for a user.
func atRoom(t *testing.T, orders, method, user, ticket string) (answer map[string]any) {
	t.Helper()
	h := http.Header{"X-User-Id": {user}}
	if ticket != "" {
		h.Set("Room-Ticket", ticket)
	}
	status, body := harness.Call(t, method, strings.TrimSuffix(orders, "/orders")+"/room", h, "")
	if status >= 300 {
		t.Fatalf("%s of %s: %d %s", method, user, status, body)
	}
	fail.NowIf(t, json.Unmarshal([]byte(body), &answer))
	return answer
}

// change changes a voucher as an administrator does.
func change(t *testing.T, orders, body string) {
	t.Helper()
	voucher := strings.TrimSuffix(orders, "/orders")
	_, now := harness.Call(t, http.MethodGet, voucher, nil, "")
	var v struct{ Revision int64 }
	fail.NowIf(t, json.Unmarshal([]byte(now), &v))
	status, said := harness.Call(t, http.MethodPatch, voucher, http.Header{"If-Match": {fmt.Sprintf(`"%d"`, v.Revision)}}, body)
	fail.Unequal(t, status, http.StatusOK, "%s: %s", body, said)
}

// begin begins a sale.
func begin(t *testing.T, orders string) {
	t.Helper()
	change(t, orders, fmt.Sprintf(`{"begin_at":%q}`, time.Now().UTC().Format(time.RFC3339Nano)))
}

// pageWaits is the way through a waiting room: the draw, the queue, the turn, the order. One who comes later is told
// that the sale is paused, that it goes on, that all is sold out, and that a unit is back.
func pageWaits(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	const title = "Concert"
	orders := sell(t, url, title, 3, time.Now().Add(30*time.Minute), future, `{"flow":"admission","room":{"rate":1000,"draw_s":3600,"pass_s":3600}}`)
	button, line := card(title, ".buy"), card(title, ".when")
	v := visit(b, t, url+"/", "en")
	v.untilThere(title)
	v.until("the room can be entered", button+`.textContent === 'Enter the waiting room' && `+line+`.textContent.startsWith('Places are drawn in ')`)
	v.do(button + `.click()`)
	v.untilOutcome(title, "You take part in the draw")
	others := map[string]string{}
	for _, user := range []string{"201", "202"} {
		others[user] = atRoom(t, orders, http.MethodPost, user, "")["ticket"].(string)
	}

	t.Run("the place is kept, also for another device", func(t *testing.T) {
		const ticketOf = `localStorage.getItem(Object.keys(localStorage).find((k) => k.startsWith('seckill.room.')))`
		ticket := v.says(ticketOf)
		v.do(`localStorage.clear()`) // as on another device
		v.open(url + "/")
		v.untilThere(title)
		v.do(button + `.click()`)
		v.untilOutcome(title, "You take part in the draw")
		fail.Unequal(t, v.says(ticketOf), ticket, "the ticket on another device")
		v.open(url + "/")
		v.untilThere(title)
		v.untilOutcome(title, "You take part in the draw")
		fail.Unequal(t, strings.Contains(ticket, " "), true, "the commitment is kept with the ticket: %s", ticket)
	})
	v.until("the visitors are counted", line+`.textContent === 'Visitors so far: 3' && `+button+`.textContent.startsWith('Draw in ')`)
	shots(t, v, "room-draw")
	begin(t, orders)

	v.until("it is the visitor's turn", button+`.textContent === 'Your turn: buy for €12.50' && /^(60:00|1:00:00|59:\d\d) left to buy$/.test(`+line+`.textContent)`)
	v.until("the title says so", `document.title.startsWith('Your turn: ') && document.getElementById('next-title').textContent === 'Concert'`)
	v.do(card(title, ".check") + `.click()`)
	v.until("the draw is right", `/^Right: your browser finds place [123] too/.test(document.getElementById('check-outcome').textContent)`)
	shots(t, v, "room-check")
	v.do(`document.getElementById('check-close').click()`)
	shots(t, v, "room-turn")

	for user, ticket := range others {
		var pass string
		testkit.Until(t, "the pass of "+user, func() bool {
			pass, _ = atRoom(t, orders, http.MethodGet, user, ticket)["pass"].(string)
			return pass != ""
		})
		status, body := harness.Call(t, http.MethodPost, orders, http.Header{"X-User-Id": {user}, "Room-Pass": {pass}}, "")
		fail.Unequal(t, status < 300, true, "%d %s", status, body)
	}
	for user := range 5 {
		atRoom(t, orders, http.MethodPost, fmt.Sprint(300+user), "")
	}
	w := v.another(url + "/")
	w.untilThere(title)
	w.do(button + `.click()`)
	w.until("the latecomer has a place", button+`.textContent === 'Place 9 in the queue'`)
	w.until("it is told who comes first", line+`.textContent === '5 before you. Units left: 1'`)
	w.untilOutcome(title, "Those before you may take all that is left")
	shots(t, w, "room-waits")
	change(t, orders, `{"paused":true}`)
	w.untilOutcome(title, "The sale is paused. You keep place 9.")
	change(t, orders, `{"paused":false}`)
	w.until("it goes on", button+`.textContent === 'Place 9 in the queue'`)

	v.do(button + `.click()`)
	v.untilOutcome(title, "The order is confirmed")
	w.untilOutcome(title, "Nothing is left. You keep place 9, in case a unit returns.")
	shots(t, w, "room-sold-out")
	change(t, orders, `{"stock":{"add":100}}`)
	w.until("the latecomer's turn", button+`.textContent === 'Your turn: buy for €12.50'`)
	w.do(button + `.click()`)
	w.untilOutcome(title, "The order is confirmed")
	v.untroubled(url)
	w.untroubled(url)
}

// pageMissesItsTurn does not use a pass, and queues again. A visitor who does not look at the page has no pass that
// lapses.
func pageMissesItsTurn(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	const title, title2 = "Short", "Elsewhere"
	sell(t, url, title, 5, past, future, `{"room":{"rate":1000,"draw_s":0,"pass_s":15}}`)
	orders := sell(t, url, title2, 5, time.Now().Add(30*time.Minute), future, `{"room":{"rate":1000,"draw_s":3600,"pass_s":3600,"work_bits":12}}`)
	v := visit(b, t, url+"/", "en")
	v.untilThere(title)
	button := card(title, ".buy")
	v.do(`globalThis.said = new Set(); new MutationObserver(() => said.add(` + button + `.textContent)).observe(` + button + `, { childList: true })`)
	v.do(button + `.click()`)
	v.untilOutcome(title, "Your time to buy is over")
	v.until("it had a turn, and may queue again", `said.has('Your turn: buy for €12.50') && `+button+`.textContent === 'Queue again'`)
	v.do(`said.clear(); ` + button + `.click()`)
	v.until("it has another turn", `said.has('Your turn: buy for €12.50')`)

	w := v.another(url + "/")
	w.untilThere(title2)
	w.do(`Object.defineProperty(document, 'hidden', { get: () => hide }); globalThis.hide = false`)
	w.do(card(title2, ".buy") + `.click()`)
	w.untilOutcome(title2, "You take part in the draw")
	begin(t, orders)
	w.do(`hide = true; document.dispatchEvent(new Event('visibilitychange'))`)
	w.until("the title calls the visitor", `document.title === 'Your turn: Elsewhere'`)
	fail.Unequal(t, w.says(card(title2, ".buy")+`.textContent`), "Your turn in a moment")
	w.do(`hide = false; document.dispatchEvent(new Event('visibilitychange'))`)
	w.until("the pass comes when somebody looks", card(title2, ".buy")+`.textContent === 'Your turn: buy for €12.50'`)
	w.do(card(title2, ".buy") + `.click()`)
	w.untilOutcome(title2, "The order is confirmed")
}

// shots looks at the page in two sizes, languages and colours, and keeps pictures if PAGE_SHOTS names a folder.
func shots(t *testing.T, v *visitor, name string) {
	t.Helper()
	shotsOf(t, v, name, ".roomy")
}

// shotsOf does so with an element in sight.
func shotsOf(t *testing.T, v *visitor, name, element string) {
	t.Helper()
	for _, look := range []struct {
		width            int64
		scheme, language string
	}{{390, "light", "en"}, {1280, "dark", "zh"}, {390, "dark", "zh"}, {1280, "light", "en"}} {
		dir := os.Getenv("PAGE_SHOTS")
		if dir == "" && look.width == 1280 && look.language == "en" {
			continue
		}
		fail.NowIf(t, browser.Window(v.tab, look.width, 844, look.scheme))
		v.do(fmt.Sprintf(`document.querySelector('#languages [lang=%s]').click(); document.querySelector(%q).scrollIntoView({ block: 'center' })`, look.language, element))
		fail.NowIf(t, chromedp.Do(v.tab, chromedp.Evaluate[chromedp.Void](`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))`, chromedp.EvalAwaitPromise)))
		fail.Unequal(t, v.says(`document.documentElement.scrollWidth - document.documentElement.clientWidth`), "0", "%s: px too wide at %d", name, look.width)
		if look.width == 390 {
			found, err := browser.Inaccessible(v.tab)
			if err != nil || len(found) > 0 {
				t.Errorf("%s: %q, %v", name, found, err)
			}
		}
		if dir != "" {
			fail.NowIf(t, browser.Shoot(v.tab, dir, fmt.Sprintf("%s-%d-%s-%s", name, look.width, look.scheme, look.language)))
		}
	}
	fail.NowIf(t, browser.Window(v.tab, 1280, 844, "light"))
	v.do(`document.querySelector('#languages [lang=en]').click()`)
}
