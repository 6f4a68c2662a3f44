package pages

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// finger is a place on the page that is touched, and when it is touched next.
type finger struct {
	v    *visitor
	x, y float64
	at   time.Time
}

// finger puts a finger above an element.
func (v *visitor) finger(element string) *finger {
	v.t.Helper()
	v.do(element + `.scrollIntoView({ block: 'center' })`)
	f := &finger{v: v, at: time.Now()}
	_, err := fmt.Sscan(v.says(`(({ x, y, width, height }) => (x + width / 2) + ' ' + (y + height / 2))(`+element+`.getBoundingClientRect())`), &f.x, &f.y)
	fail.NowIf(v.t, err)
	return f
}

// tap touches the place. However long the test has waited meanwhile, for the page it is 150 ms after the last tap: the
// browser takes the time of an event from it.
func (f *finger) tap() {
	f.v.t.Helper()
	at := input.TimeSinceEpoch(float64(f.at.UnixMicro()) / 1e6)
	f.at = f.at.Add(150 * time.Millisecond)
	_, err := chromedp.Call(f.v.tab, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type: input.DispatchTouchEventTypeTouchStart, TouchPoints: []*input.TouchPoint{{X: f.x, Y: f.y}}, Timestamp: at,
	})
	fail.NowIf(f.v.t, err)
	_, err = chromedp.Call(f.v.tab, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type: input.DispatchTouchEventTypeTouchEnd, TouchPoints: []*input.TouchPoint{}, Timestamp: at,
	})
	fail.NowIf(f.v.t, err)
}

// click does the same with a mouse.
func (f *finger) click() {
	f.v.t.Helper()
	at := input.TimeSinceEpoch(float64(f.at.UnixMicro()) / 1e6)
	f.at = f.at.Add(150 * time.Millisecond)
	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		_, err := chromedp.Call(f.v.tab, input.DispatchMouseEvent, input.DispatchMouseEventParams{
			Type: kind, X: f.x, Y: f.y, Button: input.MouseButtonLeft, ClickCount: 1, Timestamp: at,
		})
		fail.NowIf(f.v.t, err)
	}
}

// holdOrders makes the page get the answers to its orders only when release is called, and counts what it sends.
const holdOrders = `(() => {
	const real = window.fetch;
	window.sent = { orders: 0, payment: 0, cancel: 0 };
	window.fetch = async (path, init) => {
		if (init?.method !== 'POST') return real(path, init);
		const what = path.split('/').pop();
		sent[what]++;
		if (what === 'orders') await new Promise((resolve) => { window.release = resolve; });
		return real(path, init);
	};
})()`

// Somebody who is in a hurry taps twice. Both taps mean the same, before the answer comes and after it.
func pageDoubleTap(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	sell(t, url, "tap", 5, past, future, `{}`)
	sell(t, url, "click", 5, past, future, `{}`)
	sell(t, url, "Enter", 5, past, future, `{}`)
	sellUnpaid(t, url, "tap, to be paid", 5, past)
	sellUnpaid(t, url, "click, to be paid", 5, past)
	v := visit(b, t, url+"/", "en")
	fail.NowIf(t, browser.Window(v.tab, 390, 844, "light"))
	v.untilThere("click, to be paid")
	v.do(holdOrders)
	orders := 0
	for _, title := range []string{"tap", "tap, to be paid", "click", "click, to be paid"} {
		f := v.finger(card(title, ".buy"))
		touch := f.tap
		if strings.HasPrefix(title, "click") {
			touch = f.click
		}
		orders++
		touch()
		v.until("the order is sent", fmt.Sprintf(`sent.orders === %d && window.release !== undefined`, orders))
		touch()
		v.do(`window.release(); delete window.release`)
		v.untilOutcome(title, map[bool]string{true: "not paid yet", false: "confirmed"}[strings.HasSuffix(title, "paid")])
		touch()
		touch()
		fail.Unequal(t, v.says(`JSON.stringify(sent) + document.querySelectorAll('dialog[open]').length + location.href`),
			fmt.Sprintf(`{"orders":%d,"payment":0,"cancel":0}0%s/`, orders, url), "%s: after four taps the page has sent", title)
		fail.Unequal(t, v.says(`document.querySelectorAll('#orders li').length`), fmt.Sprint(orders), "%s: orders that are listed", title)
	}
	f := v.finger(card("tap, to be paid", ".pay"))
	f.at = f.at.Add(time.Minute)
	f.tap()
	v.arrives("a tap after a rest pays", `document.querySelector('[value=pay]') !== null`)
	v.open(url + "/")
	v.untilThere("Enter")
	v.do(holdOrders)
	v.do(card("Enter", ".buy") + `.focus()`)
	v.press("\r")
	v.press("\r")
	v.do(`window.release()`)
	v.untilOutcome("Enter", "confirmed")
	fail.Unequal(t, v.says(`sent.orders`), "1", "with two Enters the page has sent")
}

// places is where the cards are that are in sight, by their titles.
const places = `JSON.stringify([...document.querySelectorAll('.card')].map((c) => [c.querySelector('h3').textContent, c.getBoundingClientRect()])
	.filter(([, r]) => r.bottom > 0 && r.top < innerHeight).map(([title, r]) => [title, Math.round(r.top)]))`

// looksAt scrolls to a card, and returns where the cards are then.
func (v *visitor) looksAt(title string) (before string) {
	v.t.Helper()
	v.do(card(title, ".slot") + `.scrollIntoView({ block: 'center' })`)
	v.until("nothing moves any more", `(() => { const now = `+places+`; const still = now === globalThis.were; globalThis.were = now; return still; })()`)
	return v.says(places)
}

// A card keeps its place when its sale opens, when another one is bought or sold out, and when a new one comes.
func pageKeepsItsPlaces(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	for i := range 6 {
		sell(t, url, fmt.Sprint("Open ", i), 1, past, future, `{}`)
		sell(t, url, fmt.Sprint("Later ", i), 5, time.Now().Add(time.Duration(i+1)*time.Hour), future, `{}`)
	}
	opens := sell(t, url, "Opens", 5, time.Now().Add(10*time.Second), future, `{}`)
	v := visit(b, t, url+"/", "en")
	fail.NowIf(t, browser.Window(v.tab, 390, 844, "light"))
	v.untilThere("Opens")
	v.until("all are there", `document.querySelectorAll('.card').length === 15`)
	before := v.looksAt("Open 3")
	v.do(card("Open 3", ".buy") + `.click()`)
	v.untilOutcome("Open 3", "confirmed")
	v.until("it is sold out", card("Open 3", ".stock")+`.textContent.startsWith('0 of')`)
	fail.Unequal(t, v.says(places), before, "after one is bought and sold out the cards stand at")
	before = v.looksAt("Opens")
	v.until("it opens", `!`+card("Opens", ".buy")+`.disabled`)
	fail.Unequal(t, v.says(places), before, "after one has opened the cards stand at")
	opened := strings.TrimSuffix(opens, "/orders")
	_, body := harness.Call(t, http.MethodGet, opened, nil, "")
	revision := regexp.MustCompile(`"revision":"?(\d+)`).FindStringSubmatch(body)[1]
	if status, body := harness.Call(t, http.MethodPatch, opened, http.Header{"If-Match": {`"` + revision + `"`}}, `{"paused":true}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	v.until("it is paused", card("Opens", ".buy")+`.disabled && `+card("Opens", ".buy")+`.textContent === 'Paused'`)
	fail.Unequal(t, v.says(places), before, "after one is paused the cards stand at")
	sell(t, url, "New", 5, past, future, `{}`)
	v.untilThere("New")
	fail.Unequal(t, v.says(places), before, "after a new one has come the cards stand at")
	fail.Unequal(t, v.says(`document.querySelector('#chips [value=mine]').textContent`), "Mine 1", "the chip")
	v.do(`document.querySelector('#chips [value=mine]').click()`)
	fail.Unequal(t, v.says(`[...document.querySelectorAll('.card h3')].map((h) => h.textContent).join()`), "Open 3", "mine")
	v.untroubled(url)
}
