package pages

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A voucher that is to be paid is paid at the provider's page, and given back with a button.
func pageTakesToThePayment(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	const title = "To be paid"
	sellUnpaid(t, url, title, 5, past)
	v := visit(b, t, url+"/", "en")
	v.untilThere(title)
	v.do(holdFirstWait)
	v.do(card(title, ".buy") + `.click()`)
	v.untilOutcome(title, "not paid yet")
	v.until("the time to pay is shown", `/^(10:00|09:\d\d) left to pay$/.test(`+card(title, ".when")+`.textContent)`)

	v.do(card(title, ".cancel") + `.focus()`)
	v.press("\r")
	v.until("it is asked whether that is meant", `document.getElementById('sure').open`)
	fail.Unequal(t, v.says(`document.activeElement.value`), "no", "the answer that the keyboard gives at once")
	v.do(`document.querySelector('#sure [value=yes]').click()`)
	v.untilOutcome(title, "The order is cancelled")
	if got := v.says(`document.activeElement === ` + card(title, ".outcome")); got != "true" {
		t.Errorf("the focus is on %s", v.says(`document.activeElement.outerHTML`))
	}
	v.until("it can be bought again", `!`+card(title, ".buy")+`.hidden && !`+card(title, ".buy")+`.disabled`)
	v.until("the answer about the cancelled order is there", `window.release !== undefined`)
	v.do(card(title, ".buy") + `.click()`)
	v.untilOutcome(title, "not paid yet")
	v.do(`window.release()`)
	v.until("the page has read it", `window.read`)
	if got := v.says(card(title, ".outcome") + `.textContent`); !strings.Contains(got, "not paid yet") {
		t.Errorf("a late answer about the cancelled order makes the card of the new one say %q", got)
	}
	v.untroubled(url)

	// The page is open at another of the server's names, as on a phone: the provider's page is there too.
	at := strings.Replace(url, "127.0.0.1", "localhost", 1)
	buyer := v.says(`sessionStorage.getItem('seckill.buyer')`)
	v = visitAfter(b, t, fmt.Sprintf(`sessionStorage.setItem('seckill.buyer', %q)`, buyer), at+"/")
	v.untilThere(title)
	v.untilOutcome(title, "not paid yet")
	v.do(card(title, ".pay") + `.click()`)
	v.arrives("the provider's page", `document.querySelector('[value=refuse]') !== null`)
	if got := v.says(`location.origin + document.title`); !strings.HasPrefix(got, at+"Order ") {
		t.Errorf("the provider's page is %s", got)
	}
	v.accessible("the provider's page")
	v.do(`document.querySelector('[value=refuse]').click()`)
	v.arrives("it was refused", `document.querySelector('[role=status]') !== null`)
	v.accessible("the provider's page, after a refusal")
	v.do(`document.querySelector('main a').click()`)
	v.arrives("the order's page", `document.getElementById('order')?.open && document.getElementById('order-state').textContent.includes('not paid yet')`)
	v.do(`document.getElementById('order-close').click()`)
	v.do(card(title, ".pay") + `.click()`)
	v.arrives("the provider's page, again", `document.querySelector('[value=pay]') !== null`)
	v.do(`document.querySelector('[value=pay]').click()`)
	v.arrives("the provider has the money", `document.querySelector('[role=status]') !== null && document.querySelector('form') === null`)
	fail.NowIf(t, browser.Window(v.tab, 390, 844, "dark"))
	v.accessible("the provider's page, after a payment, in the dark")
	v.do(`document.querySelector('main a').click()`)
	v.arrives("the order is paid", `document.getElementById('order')?.open && document.getElementById('order-state').textContent.includes('The order is paid')`)
	v.accessible("the order's page")
	v.do(`document.getElementById('order-close').click()`)
	v.untilOutcome(title, "It is yours. The order is paid.")
	v.until("both orders are listed", `[...document.querySelectorAll('#orders .chip')].map((c) => c.textContent).join() === 'Paid,Cancelled'`)
	fail.Unequal(t, v.says(card(title, ".pay")+`.hidden`), "true", "what is paid cannot be paid again")
}

// holdFirstWait makes the page get the answer to its first request that waits for a change of an unpaid order only when
// release is called. After that, read says that the page has done what it does with it.
const holdFirstWait = `(() => {
	const real = window.fetch;
	let held = false;
	window.fetch = async (path, init) => {
		const hold = !held && path.includes(':unpaid&wait');
		held ||= hold;
		const answer = await real(path, init);
		if (!hold) return answer;
		const text = await answer.text();
		await new Promise((resolve) => { window.release = resolve; });
		return { ok: answer.ok, status: answer.status, headers: answer.headers, text: async () => {
			setTimeout(() => { window.read = true; }); // after everything that follows from the text at once
			return text;
		} };
	};
})()`

// arrives waits until an expression is true on a page that the tab is on its way to. While a tab goes from one page to
// the next, nothing can be asked.
func (v *visitor) arrives(what, expression string) {
	v.t.Helper()
	testkit.Until(v.t, what, func() bool {
		is, err := chromedp.Run(v.tab, chromedp.Evaluate[bool](expression))
		return err == nil && is
	})
}
