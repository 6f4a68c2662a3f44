package pages

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A sale that is opened while the page waits can be bought from in its first second, by the server's clock.
func pageCountsDown(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	sell(t, url, "Tomorrow", 5, time.Now().Add(25*time.Hour), future, `{}`)
	v := visit(b, t, url+"/", "zh-CN")
	v.untilThere("Tomorrow")
	fail.Unequal(t, v.says(`document.documentElement.lang + document.title`), "zh-CN限时秒杀", "the page")
	if got := v.says(card("Tomorrow", ".buy") + `.textContent`); !strings.Contains(got, "1 天") {
		t.Errorf("tomorrow is in %q", got)
	}
	sell(t, url, "Soon", 5, time.Now().Add(4*time.Second), future, `{}`)
	v.untilThere("Soon")
	v.until("the sale opens by itself", `!`+card("Soon", ".buy")+`.disabled`)
	v.do(card("Soon", ".buy") + `.click()`)
	v.untilOutcome("Soon", "订单已确认")
	v.do(`document.querySelector('#languages [lang=en]').click()`)
	v.untilOutcome("Soon", "The order is confirmed")
	fail.Unequal(t, v.says(`document.documentElement.lang + document.title`), "enFlash sale", "after the change of the language the page")
	v.untroubled(url, http.StatusConflict) // the tap may have been early
}

// The page knows the server's clock to a fraction of a second, and instances differ. A buyer who taps as soon as the
// page allows it, before the server does, gets the order when the sale opens. The page is told that the sale begins
// when it hears of it, and taps at once; its clock stands until it is refused, so that a slow machine is not late. Its
// first order is led to a sale that has not begun.
func pageTapsEarly(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	later := sell(t, url, "Later", 5, time.Now().Add(24*time.Hour), future, `{}`)
	v := visit(b, t, url+"/", "en")
	v.untilThere("Later")
	v.do(fmt.Sprintf(`globalThis.said = []; new MutationObserver(() => {
		for (const o of document.querySelectorAll('.outcome')) said.push(o.textContent);
	}).observe(document.body, { subtree: true, childList: true, characterData: true });
	const moves = performance.now.bind(performance);
	let stands, begin, tapped;
	performance.now = () => stands ?? moves();
	globalThis.answers = [];
	import(new URL('clock.js', document.querySelector('script[type=module]').src)).then((clock) => {
		const real = globalThis.fetch;
		globalThis.fetch = async (path, init) => {
			const orders = init?.method === 'POST';
			const answer = await real(orders && !answers.length ? %q : path, init);
			if (orders) {
				answers.push(answer.status);
				stands = undefined;
			}
			if (!String(path).startsWith('/api/v1/vouchers?')) return answer;
			const page = await answer.json();
			for (const v of page.vouchers) if (v.title === 'Soon') {
				if (!begin) {
					stands = moves();
					begin = new Date(clock.earliest()).toISOString();
				}
				v.begin_at = begin;
			}
			return new Response(JSON.stringify(page), { status: answer.status, headers: answer.headers });
		};
		globalThis.hooked = true;
	});
	new MutationObserver(() => {
		for (const c of document.querySelectorAll('.card')) {
			if (c.querySelector('h3').textContent === 'Soon' && !tapped && !c.querySelector('.buy').disabled) {
				tapped = true;
				c.querySelector('.buy').click();
			}
		}
	}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true })`, later))
	v.until("the page's clock can be stopped", `globalThis.hooked`)
	sell(t, url, "Soon", 5, past, future, `{}`)
	v.until("the page has heard of it", `answers.length > 0`)
	v.untilOutcome("Soon", "The order is confirmed")
	fail.Unequal(t, v.says(`answers.join()`), "409,201", "the server answered")
	fail.Without(t, v.says(`[...new Set(said)].join(' | ')`), "The sale opens this second, trying again …")
	v.untroubled(url, http.StatusConflict)
}

// A buyer who is refused for the moment waits as long as the service says, and then gets the order.
func pageTriesAgain(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, []string{"-user-rate", "1"}, nil)
	url := s.URLOfBanner(t)
	const vouchers = 4
	for i := range vouchers {
		sell(t, url, fmt.Sprint("Voucher ", i), 5, past, future, `{}`)
	}
	v := visit(b, t, url+"/", "en")
	for i := range vouchers {
		v.untilThere(fmt.Sprint("Voucher ", i))
	}
	// Some messages stand for a second only, so each is noted when it appears.
	v.do(`globalThis.said = []; new MutationObserver(() => {
		for (const o of document.querySelectorAll('.outcome')) said.push(o.textContent);
	}).observe(document.body, { subtree: true, childList: true, characterData: true })`)
	v.do(`globalThis.keys = {}; const sent = fetch; globalThis.fetch = (path, init) => {
		const key = init.headers['Idempotency-Key'];
		if (key) (keys[path] ??= new Set()).add(key);
		return sent(path, init);
	}`)
	v.do(`for (const b of document.querySelectorAll('.buy')) b.click()`)
	for i := range vouchers {
		v.untilOutcome(fmt.Sprint("Voucher ", i), "The order is confirmed")
	}
	fail.Without(t, v.says(`[...new Set(said)].join(' | ')`), "Busy, trying again …")
	fail.Unequal(t, v.says(`[...new Set(Object.values(keys).map((k) => k.size))]`), "1", "keys of the attempts to buy one voucher")
	v.untroubled(url, http.StatusTooManyRequests)

	fail.If(t, s.End())
	v.until("the page says that the shop is away", `!document.getElementById('notice').hidden`)
}
