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
	if got := v.says(card("Tomorrow", ".countdown") + `.textContent`); !strings.Contains(got, "1 天") {
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

// The page knows the server's clock to a fraction of a second, and instances differ. A buyer who taps as soon as the page
// allows it, before the server does, gets the order when the sale opens, here on a network on which the first refusal
// arrives long after that.
func pageTapsEarly(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	v := visit(b, t, url+"/", "en")
	v.until("the page is up", `document.querySelectorAll('.card').length > 0`)
	// The page is told that each sale that comes begins 1.9 s earlier than it does, and taps at once.
	v.do(`globalThis.said = []; new MutationObserver(() => {
		for (const o of document.querySelectorAll('.outcome')) said.push(o.textContent);
	}).observe(document.body, { subtree: true, childList: true, characterData: true });
	const real = globalThis.fetch;
	globalThis.fetch = async (...args) => {
		const answer = await real(...args);
		if (args[1]?.method === 'POST') await new Promise((arrive) => setTimeout(arrive, 3000));
		if (!String(args[0]).startsWith('/api/v1/vouchers?')) return answer;
		const page = await answer.json();
		for (const v of page.vouchers) if (v.title.startsWith('Soon')) v.begin_at = new Date(Date.parse(v.begin_at) - 1900).toISOString();
		return new Response(JSON.stringify(page), { status: answer.status, headers: answer.headers });
	};
	const tapped = new Set();
	new MutationObserver(() => {
		for (const c of document.querySelectorAll('.card')) {
			const title = c.querySelector('h3').textContent;
			if (title.startsWith('Soon') && !tapped.has(title) && !c.querySelector('.buy').disabled) {
				tapped.add(title);
				c.querySelector('.buy').click();
			}
		}
	}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true })`)
	early := false
	for i := 0; !early && i < 5; i++ { // on a busy machine a page can be late
		title := fmt.Sprint("Soon, ", i)
		begin := time.Now().Add(7 * time.Second).Truncate(time.Second).Add(1900 * time.Millisecond) // the page looks at full seconds
		sell(t, url, title, 5, begin, future, `{}`)
		v.untilThere(title)
		v.untilOutcome(title, "The order is confirmed")
		early = v.says(`said.includes('The sale opens this second, trying again …')`) == "true"
	}
	if !early {
		t.Errorf("the page never tapped early: %s", v.says(`[...new Set(said)].join(' | ')`))
	}
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
	if v.says(`said.includes('Busy, trying again …')`) != "true" {
		t.Errorf("nobody was told to be patient: %s", v.says(`[...new Set(said)].join(' | ')`))
	}
	if got := v.says(`[...new Set(Object.values(keys).map((k) => k.size))]`); got != "1" {
		t.Errorf("the attempts to buy one voucher have %s keys, want one", got)
	}
	v.untroubled(url, http.StatusTooManyRequests)

	fail.If(t, s.End())
	v.until("the page says that the shop is away", `!document.getElementById('notice').hidden`)
}
