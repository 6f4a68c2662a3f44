package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"seckill/internal/auth"
	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// visitor is a tab that shows a page of the service.
type visitor struct {
	t     *testing.T
	tab   context.Context
	notes *browser.Notes
}

// TestPage has one browser for all its parts, each with a window and a service of its own. In the browser every name of
// attacker.example is this machine.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes a while")
	}
	t.Parallel()
	b, _ := browser.Open(t, chromedp.Flag("host-resolver-rules", "MAP *.attacker.example 127.0.0.1"))
	for name, part := range map[string]func(context.Context, *testing.T){
		"sells": pageSells, "a buyer's way": pageWay, "takes to the payment": pageTakesToThePayment, "counts down": pageCountsDown, "taps early": pageTapsEarly,
		"tries again": pageTriesAgain, "asks for a token": pageWithTokens,
		"a double tap buys once": pageDoubleTap, "cards keep their place": pageKeepsItsPlaces,
		"waits for its turn": pageWaits, "misses its turn": pageMissesItsTurn,
		"of many": pageOfMany, "follows all orders": pageFollowsAllOrders, "comes back": pageComesBack, "in the oldest browser": pageInTheOldest,
		"fits": pageFits, "elsewhere changes nothing": pageElsewhere,
		"console shows oversold": consoleShowsOversold, "console drives a sale": consoleDrives, "console has a room": consoleHasARoom, "console asks for the token": consoleAsksForTheToken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(b, t)
		})
	}
}

// visit opens a page in a tab of a browser that asks for that language.
func visit(b context.Context, t *testing.T, url, language string) *visitor {
	t.Helper()
	tab, notes := browser.Tab(b, t)
	fail.NowIf(t, browser.Language(tab, language))
	v := &visitor{t, tab, notes}
	v.open(url)
	return v
}

// another opens the page in another tab of the browser.
func (v *visitor) another(url string) *visitor {
	v.t.Helper()
	tab, notes := browser.Tab(v.tab, v.t)
	fail.NowIf(v.t, browser.Language(tab, "en"))
	o := &visitor{v.t, tab, notes}
	o.open(url)
	return o
}

func (v *visitor) open(url string) {
	v.t.Helper()
	fail.NowIf(v.t, chromedp.Do(v.tab, chromedp.Navigate(url)))
}

// says evaluates an expression that is a string.
func (v *visitor) says(expression string) string {
	v.t.Helper()
	s, err := chromedp.Run(v.tab, chromedp.Evaluate[string](`String(`+expression+`)`))
	fail.NowIf(v.t, err, "%s", expression)
	return s
}

// until waits until an expression is true.
func (v *visitor) until(what, expression string) {
	v.t.Helper()
	defer func() { // what is shown instead
		if v.t.Failed() {
			v.t.Logf("the page says: %s", v.says(`document.body.innerText`))
		}
	}()
	testkit.Until(v.t, what, func() bool { return v.says(expression) == "true" })
}

func (v *visitor) do(script string) {
	v.t.Helper()
	fail.NowIf(v.t, chromedp.Do(v.tab, chromedp.Evaluate[chromedp.Void](script+"; undefined")), "%s", script)
}

// press sends a key to the element that has the focus.
func (v *visitor) press(key string) {
	v.t.Helper()
	fail.NowIf(v.t, chromedp.Do(v.tab, chromedp.KeyEvent(key)))
}

// card is an expression for a part of the card of a voucher.
func card(title, part string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.card')].find((c) => c.querySelector('h3').textContent === %q).querySelector(%q)`, title, part)
}

func (v *visitor) untilOutcome(title, outcome string) {
	v.t.Helper()
	what := fmt.Sprintf("%q: %q", title, outcome)
	v.until(what, fmt.Sprintf(`%s.textContent.includes(%q)`, card(title, ".outcome"), outcome))
}

func (v *visitor) untilThere(title string) {
	v.t.Helper()
	v.until(title+" is shown", fmt.Sprintf(`[...document.querySelectorAll('.card h3')].some((h) => h.textContent === %q)`, title))
}

// untroubled fails the test if the browser has complained of anything but a refusal of an order, which it reports too,
// or if the page has asked for anything elsewhere.
func (v *visitor) untroubled(url string, refusals ...int) {
	v.t.Helper()
	requests, trouble := v.notes.Take()
	for _, r := range requests {
		if !strings.HasPrefix(r, url+"/") {
			v.t.Errorf("the page has asked for %s", r)
		}
	}
	for _, said := range trouble {
		expected := false
		for _, status := range refusals {
			expected = expected || strings.Contains(said, fmt.Sprintf("responded with a status of %d", status))
		}
		if !expected {
			v.t.Errorf("the browser complains: %s", said)
		}
	}
}

// sell puts a voucher on sale and returns the address of its orders. The policy is JSON.
func sell(t *testing.T, url, title string, stock int, begin, end time.Time, policy string, headers ...string) (orders string) {
	t.Helper()
	h := http.Header{}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		h.Set(name, value)
	}
	body := putOnSale(t, url, h, fmt.Sprintf(`"title":%q,"stock":%d,"policy":%s`, title, stock, policy), begin, end)
	return url + "/api/v1/vouchers/" + regexp.MustCompile(`\d+`).FindString(body) + "/orders"
}

// sellUnpaid puts a voucher on sale that is to be paid.
func sellUnpaid(t *testing.T, url, title string, stock int, begin time.Time) {
	t.Helper()
	putOnSale(t, url, nil, fmt.Sprintf(`"title":%q,"stock":%d,"pay_within_s":600`, title, stock), begin, future)
}

func putOnSale(t *testing.T, url string, h http.Header, fields string, begin, end time.Time) (answer string) {
	t.Helper()
	status, body := harness.Call(t, http.MethodPost, url+"/api/v1/vouchers", h, fmt.Sprintf(
		`{%s,"price_cents":1250,"value_cents":2000,"begin_at":%q,"end_at":%q}`,
		fields, begin.UTC().Format(time.RFC3339Nano), end.UTC().Format(time.RFC3339Nano)))
	fail.NowUnequal(t, status, http.StatusCreated, "%s", body)
	return body
}

var past, future = time.Now().Add(-time.Hour), time.Now().Add(30 * 24 * time.Hour)

// One who uses the keyboard alone opens the page and buys with one key; what became of the order is said.
func pageSells(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	const first = "Under a lock"
	orders := sell(t, url, first, 100, past, future, `{}`)
	sell(t, url, "By admission", 500, past, future, `{"flow":"admission"}`)
	sell(t, url, "One only", 1, past, future, `{}`)
	v := visit(b, t, url+"/", "en")
	v.untilThere(first)
	v.until("a buyer was drawn", `/^Buyer \d{3}\D\d{3}\D\d{3}$/.test(document.getElementById('who').textContent)`)

	v.do(card(first, ".buy") + `.focus()`)
	v.press("\r")
	v.untilOutcome(first, "The order is confirmed")
	if got := v.says(`document.activeElement === ` + card(first, ".outcome")); got != "true" {
		t.Errorf("the focus is on %s", v.says(`document.activeElement.outerHTML`))
	}
	fail.Unequal(t, v.says(card(first, ".outcome")+`.getAttribute('role')`), "status", "the role of the outcome, for screen readers")
	v.until("the order is listed", `document.querySelector('#orders li')?.textContent.includes('Confirmed')`)
	v.do(`document.querySelector('#orders a').click()`)
	v.until("the order has its date", `(() => {
		const line = document.getElementById('order-line').textContent;
		return document.getElementById('order').open && line === document.querySelector('#orders small').textContent && /^\d+:\d\d:\d\d [AP]M · order \d+$/.test(line);
	})()`)
	v.do(`document.getElementById('order-close').click()`)
	v.do(card("By admission", ".buy") + `.click()`)
	v.untilOutcome("By admission", "The order is confirmed")
	v.do(card("One only", ".buy") + `.click()`)
	v.untilOutcome("One only", "The order is confirmed")

	t.Run("another tab is another buyer", func(t *testing.T) {
		o := v.another(url + "/")
		o.t = t
		o.untilThere(first)
		if a, b := v.says(`sessionStorage.getItem('seckill.buyer')`), o.says(`sessionStorage.getItem('seckill.buyer')`); a == b {
			t.Errorf("both are buyer %s", a)
		}
		o.until("the stock is known", card("One only", ".buy")+`.disabled`)
		fail.Unequal(t, o.says(card("One only", ".buy")+`.textContent`), "Sold out", "the button of what is sold out says")
		o.do(card(first, ".buy") + `.click()`)
		o.untilOutcome(first, "The order is confirmed")
		o.untroubled(url)
	})
	t.Run("the same buyer is told", func(t *testing.T) {
		o := v.another(url + "/")
		o.t = t
		o.untilThere(first)
		// Its orders are not known yet at the moment of the tap: the buyer has ordered on another device.
		o.do(`globalThis.listed = 0; const real = fetch; globalThis.fetch = async (path, init) => {
			const answer = await real(path, init);
			if (path === '/api/v1/orders') listed++;
			return answer;
		}`)
		o.do(`document.getElementById('who').click()`)
		o.do(`document.getElementById('number').value = '42'`)
		o.press("\r")
		o.until("the buyer is 42", `document.getElementById('who').textContent === 'Buyer 42'`)
		o.until("the page has asked for the buyer's orders", `listed > 0`)
		if status, body := harness.Call(t, http.MethodPost, orders, http.Header{"X-User-Id": {"42"}}, ""); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		o.do(card(first, ".buy") + `.click()`)
		o.untilOutcome(first, "it is one for each buyer")
		o.until("the order is listed", `document.querySelectorAll('#orders li').length === 1`)
		o.untroubled(url, http.StatusConflict)
	})
	t.Run("after a reload", func(t *testing.T) {
		v.open(url + "/")
		v.untilThere(first)
		v.until("the three orders", `document.querySelectorAll('#orders li').length === 3`)
		v.untilOutcome(first, "The order is confirmed")
	})
	v.untroubled(url)
}

// Outside lab mode the page asks for a token, and says when it is not accepted.
func pageWithTokens(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, []string{"-lab=false"}, []string{"SECKILL_JWT_SECRET=" + harness.Secret, "SECKILL_ADMIN_TOKEN=" + harness.AdminToken})
	url := s.URLOfBanner(t)
	tokens, err := auth.NewTokens([]byte(harness.Secret), time.Now)
	fail.NowIf(t, err)
	earlier, err := auth.NewTokens([]byte(harness.Secret), func() time.Time { return time.Now().Add(-2 * time.Hour) })
	fail.NowIf(t, err)
	expired, err := earlier.Mint(42, time.Hour)
	fail.NowIf(t, err)
	valid, err := tokens.Mint(42, time.Hour)
	fail.NowIf(t, err)
	const first = "Under a lock"
	sell(t, url, first, 100, past, future, `{}`, "Authorization: Bearer "+harness.AdminToken)
	v := visit(b, t, url+"/", "en")
	v.untilThere(first)
	v.do(card(first, ".buy") + `.click()`)
	use := func(token string) {
		t.Helper()
		v.until("the page asks for a token", `document.getElementById('identity').open`)
		v.do(fmt.Sprintf(`document.getElementById('token').value = %q; document.querySelector('#identity .go').click()`, token))
	}
	use("not a token")
	v.until("what is no token is not sent", `document.getElementById('identity-error').textContent.includes('does not look like')`)
	use(expired)
	v.until("the token is refused", `document.getElementById('identity-error').textContent.includes('expired')`)
	use(valid)
	v.until("the buyer is known", `document.getElementById('who').textContent === 'Buyer 42'`)
	v.do(card(first, ".buy") + `.click()`)
	v.untilOutcome(first, "The order is confirmed")
	v.untroubled(url, http.StatusUnauthorized)
}

// window is one in which a page is looked at; looked says that axe-core looks too: at each contrast and each layout
// once.
type window struct {
	width  int64
	scheme string
	looked bool
}

func windows() (all []window) {
	for _, width := range []int64{390, 768, 1280, 1920} {
		for _, scheme := range []string{"light", "dark"} {
			all = append(all, window{width, scheme, (scheme == "light") == (width == 1280) && (width == 390 || width == 1280)})
		}
	}
	return all
}

// The page fits every window in both schemes and both languages, and axe-core finds nothing serious. The folder in
// PAGE_SHOTS gets the pictures.
func pageFits(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	sell(t, url, "Concert, stalls", 500, past, future, `{"flow":"admission"}`)
	sell(t, url, "Breakfast for two with a view over the harbour, on a Sunday", 20, time.Now().Add(40*time.Minute), future, `{}`)
	sell(t, url, "One coffee", 1, past, future, `{"lock":"naive","stock":"unguarded","scope":"voucher"}`)
	v := visit(b, t, url+"/", "en")
	v.untilThere("One coffee")
	v.do(card("Concert, stalls", ".buy") + `.click()`)
	v.untilOutcome("Concert, stalls", "confirmed")
	schemes := map[string]string{"light": "rgb(245, 244, 239)", "dark": "rgb(19, 21, 25)"}
	for _, w := range windows() {
		fail.NowIf(t, browser.Window(v.tab, w.width, 900, w.scheme))
		for _, language := range []string{"en", "zh"} {
			v.do(fmt.Sprintf(`document.querySelector('#languages [lang=%s]').click(); scrollTo(0, 0)`, language))
			v.until("the page is painted", fmt.Sprintf(`getComputedStyle(document.body).backgroundColor === %q`, schemes[w.scheme]))
			name := fmt.Sprintf("buyers-%d-%s-%s", w.width, w.scheme, language)
			fail.Unequal(t, v.says(`document.documentElement.scrollWidth - document.documentElement.clientWidth`), "0", "%s: pixels too wide", name)
			if small := v.says(`[...document.querySelectorAll('button')].filter((b) => !b.hidden && b.offsetParent && b.offsetHeight < 40).map((b) => b.outerHTML).join()`); small != "" {
				t.Errorf("%s: too small for a finger: %s", name, small)
			}
			if w.looked && language == "en" {
				v.accessible(name)
			}
			if dir := os.Getenv("PAGE_SHOTS"); dir != "" {
				fail.NowIf(t, browser.Shoot(v.tab, dir, name))
			}
		}
	}
	pageInContrast(t, v, ".card")
	v.do(`document.getElementById('who').click()`)
	v.accessible("the dialog")
	v.untroubled(url)
}

// pageInContrast looks at the page of a visitor who asks for more contrast: 7 to 1 for all text, as WCAG asks at its
// highest level, and borders that are seen.
func pageInContrast(t *testing.T, v *visitor, box string) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		_, err := chromedp.Call(v.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-contrast", Value: "more"}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		fail.NowIf(t, err)
		found, err := browser.LittleContrast(v.tab)
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %q, %v", scheme, found, err)
		}
		fail.Unequal(t, v.says(`getComputedStyle(document.querySelector('`+box+`')).borderTopColor === getComputedStyle(document.body).color`), "true",
			"%s: the border of a box is as dark as its text", scheme)
	}
}

// Another site's page in a visitor's browser changes nothing: neither across sites nor with a name that was made to
// resolve to this machine.
func pageElsewhere(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<!doctype html><html lang="en"><title>evil</title><body></body></html>`)
	}))
	defer evil.Close()
	v := visit(b, t, strings.Replace(evil.URL, "127.0.0.1", "cross.attacker.example", 1), "en")
	voucher := harness.CurlLine.FindStringSubmatch(s.Curl)[3]
	attempts := fmt.Sprintf(`(async () => {
		const body = JSON.stringify({ title: 'forged', stock: 1, begin_at: '2020-01-01T00:00:00Z', end_at: '2120-01-01T00:00:00Z' });
		const read = [];
		for (const init of [
			{ mode: 'no-cors', body }, { mode: 'no-cors', body, headers: { 'Content-Type': 'text/plain' } },
			{ mode: 'cors', body, headers: { 'Content-Type': 'application/json', 'X-User-ID': '66' } },
		]) {
			for (const address of [%[1]q, %[2]q]) {
				try {
					const r = await fetch(address, { method: 'POST', ...init });
					if (r.type !== 'opaque') read.push(r.status);
				} catch {}
			}
		}
		try { read.push((await fetch(%[1]q)).status); } catch {}
		return read.join();
	})()`, url+"/api/v1/vouchers", voucher)
	read, err := chromedp.Run(v.tab, chromedp.Evaluate[string](attempts, chromedp.EvalAwaitPromise))
	if err != nil || read != "" {
		t.Errorf("the page elsewhere has read %q (%v)", read, err)
	}
	rebound := strings.Replace(url, "127.0.0.1", "rebind.attacker.example", 1)
	v.open(rebound + "/")
	if got := v.says(`document.body.innerText`); !strings.Contains(got, "SECKILL_LAB_HOSTS") {
		t.Errorf("the page at another name: %s", got)
	}
	read, err = chromedp.Run(v.tab, chromedp.Evaluate[string](fmt.Sprintf(`fetch(%q, {
		method: 'POST', headers: { 'X-User-ID': '66' } }).then((r) => String(r.status))`,
		strings.Replace(voucher, "127.0.0.1", "rebind.attacker.example", 1)), chromedp.EvalAwaitPromise))
	if err != nil || read != "403" {
		t.Errorf("an order at another name: %q (%v)", read, err)
	}
	if _, list := harness.Call(t, http.MethodGet, url+"/api/v1/vouchers", nil, ""); strings.Contains(list, "forged") {
		t.Errorf("a voucher was forged: %s", list)
	}
	if _, audit := harness.Call(t, http.MethodGet, strings.TrimSuffix(voucher, "/orders")+"/audit", nil, ""); !strings.Contains(audit, `"orders":0`) {
		t.Errorf("an order was forged: %s", audit)
	}
}
