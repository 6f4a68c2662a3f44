package pages

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// visitAfter opens a page in which a script has run before those of the page.
func visitAfter(b context.Context, t *testing.T, script, url string) *visitor {
	t.Helper()
	tab, notes := browser.Tab(b, t)
	fail.NowIf(t, browser.Language(tab, "en"))
	_, err := chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	fail.NowIf(t, err)
	v := &visitor{t, tab, notes}
	v.open(url)
	return v
}

// Among a thousand older vouchers tonight's is shown, on both pages. A second that passes costs nothing for what it
// does not change: no card is drawn, and no format is made.
func pageOfMany(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	for i := range 1001 {
		sell(t, url, fmt.Sprint("Old ", i), 5, past, future, `{}`)
	}
	sell(t, url, "Tonight", 5, time.Now().Add(2*time.Hour), future, `{}`)
	const count = `globalThis.formats = 0; for (const name of ['NumberFormat', 'DateTimeFormat']) {
		Intl[name] = new Proxy(Intl[name], { construct(of, args) { formats++; return new of(...args); } }); }`
	v := visitAfter(b, t, count, url+"/")
	v.untilThere("Tonight")
	v.until("the next sale is in sight", `document.getElementById('next-title').textContent === 'Tonight'`)
	v.do(`globalThis.touched = new Set(); globalThis.ticks = 0; globalThis.made = formats;
		new MutationObserver((all) => {
			for (const { target } of all) {
				const e = target.closest?.('#next-left, .card') ?? target.parentElement?.closest('#next-left, .card') ?? target;
				if (e.id === 'next-left') ticks++;
				else touched.add(e.querySelector?.('h3')?.textContent ?? e.nodeName);
			}
		}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true })`)
	v.until("three seconds have passed", `ticks >= 3`)
	// The two vouchers of every start end within a day: they count down. Tonight's is out of sight.
	fail.Unequal(t, v.says(`[...touched].sort().join()`), "100 for 80,100 for 80, to be paid", "what was drawn")
	fail.Unequal(t, v.says(`formats - made`), "0", "formats that were made meanwhile")
	v.do(`document.getElementById('next').click()`)
	v.until("in sight it counts down too", card("Tonight", ".buy")+`.textContent === 'Opens in ' + document.getElementById('next-left').textContent`)
	v.do(`document.getElementById('more').click()`)
	v.until("the next page is there", `document.querySelectorAll('.card').length > 150`)
	v.do(`document.getElementById('search').value = 'night'; document.getElementById('search').dispatchEvent(new Event('input'))`)
	fail.Unequal(t, v.says(`[...document.querySelectorAll('.card h3')].map((h) => h.textContent).join()`), "Tonight", "what is found")
	v.untroubled(url)

	c := visit(b, t, url+"/console", "en")
	c.until("it can be chosen", `[...document.querySelectorAll('#sale option')].some((o) => o.textContent === 'Tonight')`)
	c.do(`document.getElementById('title').value = 'Just now'; document.querySelector('#offer .go').click()`)
	c.until("what was created is watched", `document.querySelector('#sale option:checked')?.textContent === 'Just now'`)
	c.untroubled(url)
}

// A browser opens six connections to one origin. Six orders that are to be paid take one of them, and none while nobody
// sees the page; then the page still learns what has become of them.
func pageFollowsAllOrders(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	const orders = 6
	for i := range orders {
		sellUnpaid(t, url, fmt.Sprint("Bill ", i), 5, past)
	}
	v := visit(b, t, url+"/", "en")
	v.untilThere("Bill 5")
	v.do(`globalThis.waiting = new Set(); const real = fetch; globalThis.fetch = async (path, init) => {
		if (!path.includes('wait=')) return real(path, init);
		waiting.add(path);
		try { return await real(path, init); } finally { waiting.delete(path); }
	}`)
	for i := range orders {
		v.do(card(fmt.Sprint("Bill ", i), ".buy") + `.click()`)
	}
	v.until("one request waits for all", `waiting.size === 1 && [...waiting][0].split(':unpaid').length === 7`)
	v.do(`globalThis.see = (hidden) => {
		Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
		document.dispatchEvent(new Event('visibilitychange'));
	}; see(true)`)
	v.until("a hidden page waits for nothing", `waiting.size === 0`)
	buyer := v.says(`sessionStorage.getItem('seckill.buyer')`)
	id := strings.TrimPrefix(v.says(`document.querySelector('#orders li a').getAttribute('href')`), "#order=")
	if status, body := harness.Call(t, http.MethodPost, url+"/api/v1/orders/"+id+"/cancel", http.Header{"X-User-Id": {buyer}}, ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	v.do(`see(false)`)
	v.until("it knows when it is seen again", fmt.Sprintf(`document.querySelector('#orders [href="#order=%s"] .chip').textContent === 'Cancelled'`, id))
	v.until("it waits for the others", `waiting.size === 1 && [...waiting][0].split(':unpaid').length === 6`)
	v.untroubled(url)
}

// A buyer who closes the page and opens it again is the same one; a tab that is opened meanwhile is another. What a
// buyer orders in one tab is known in the other.
func pageComesBack(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	sell(t, url, "Concert", 5, past, future, `{}`)
	const number = `sessionStorage.getItem('seckill.buyer')`
	first := visit(b, t, url+"/", "en")
	first.untilThere("Concert")
	buyer := first.says(number)
	if other := first.another(url + "/"); other.says(number) == buyer {
		t.Error("another tab has the same buyer")
	}
	first.open("about:blank") // as closing it does
	again := visit(b, t, url+"/", "en")
	again.untilThere("Concert")
	fail.Unequal(t, again.says(number), buyer, "the buyer who comes back")
	second := visitAfter(b, t, fmt.Sprintf(`if (!sessionStorage.length) sessionStorage.setItem('seckill.buyer', %q)`, buyer), url+"/")
	second.untilThere("Concert")
	fail.Unequal(t, second.says(number), buyer, "the buyer in the second tab")
	second.do(card("Concert", ".buy") + `.click()`)
	second.untilOutcome("Concert", "confirmed")
	again.until("the other tab knows of the order", `document.querySelectorAll('#orders li').length === 1`)
	again.untilOutcome("Concert", "confirmed")
	again.untroubled(url)
}

// blocked makes the browser one that keeps no site data, and whose user wants none.
const blocked = `for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, {
	get() { throw new DOMException('denied', 'SecurityError'); } });`

// oldest takes away what the oldest supported browsers do not have: Chrome 92, Firefox 98 and Safari 15.4. The console
// and the laboratory read streams with what those have.
const oldest = `for (const [of, names] of [
	[Array.prototype, ['findLast', 'findLastIndex', 'toReversed', 'toSorted', 'toSpliced', 'with', 'group', 'groupToMap']],
	[Array, ['fromAsync']], [Object, ['hasOwn', 'groupBy']], [Map, ['groupBy']], [Promise, ['withResolvers', 'try']],
	[String.prototype, ['isWellFormed', 'toWellFormed']], [AbortSignal, ['timeout', 'any']], [AbortSignal.prototype, ['throwIfAborted']],
	[Set.prototype, ['union', 'intersection', 'difference', 'symmetricDifference', 'isSubsetOf', 'isSupersetOf', 'isDisjointFrom']],
	[URL, ['canParse', 'parse']], [Crypto.prototype, ['randomUUID']], [Intl, ['DurationFormat', 'Segmenter']], [URLSearchParams.prototype, ['size']],
	[globalThis, ['structuredClone', 'TextDecoderStream', 'Iterator', 'navigation', 'scheduler', 'BroadcastChannel']],
	[Document.prototype, ['startViewTransition']], [Element.prototype, ['checkVisibility', 'setHTMLUnsafe']], [HTMLElement.prototype, ['showPopover', 'togglePopover']],
	[HTMLDialogElement.prototype, ['requestClose']], [Navigator.prototype, ['locks', 'share', 'userActivation']],
]) for (const name of names) delete of[name];
Object.defineProperty(navigator, 'locks', { value: undefined });`

// In the oldest supported browser, and in one that blocks site data, a buyer buys and the teacher watches.
func pageInTheOldest(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	for name, script := range map[string]string{"the oldest browser": oldest, "no site data": blocked} {
		sell(t, url, name, 5, past, future, `{}`)
		v := visitAfter(b, t, script, url+"/")
		v.untilThere(name)
		v.do(card(name, ".buy") + `.click()`)
		v.untilOutcome(name, "The order is confirmed")
		v.do(`document.querySelector('#languages [lang=zh]').click()`)
		v.untilOutcome(name, "订单已确认")
		v.do(`document.querySelector('#orders a').click()`)
		v.until("the order has a page with a code", `document.getElementById('order').open && document.getElementById('order-qr').complete && document.getElementById('order-qr').naturalWidth > 0`)
		v.untroubled(url)
		c := visitAfter(b, t, script, url+"/console")
		c.until("the console has figures", `document.getElementById('verdict').className === 'verdict good'`)
		c.untroubled(url)
	}
	v := visitAfter(b, t, `delete HTMLDialogElement.prototype.showModal`, url+"/")
	v.until("a browser that is too old is told so", `getComputedStyle(document.getElementById('old')).visibility === 'visible' && document.getElementById('old').offsetHeight > 0`)
}
