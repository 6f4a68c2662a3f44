package pages

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// consoleDrives: a teacher puts a voucher on sale that is to be paid, refunds a buyer, refills, pauses and copies it,
// and shows the verdict and the address on a projector.
func consoleDrives(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	v := visit(b, t, url+"/console", "en")
	v.until("the first voucher is watched", `document.getElementById('verdict').textContent.startsWith('It adds up')`)
	v.do(`document.querySelector('#presets [value=oversell]').click(); document.getElementById('title').value = 'Dinner';
		document.getElementById('paywithin').value = '600'; document.getElementById('stock').value = '7'; document.getElementById('lasts').value = '45';
		document.querySelector('#offer .go').click()`)
	v.until("it is watched", `document.querySelector('#sale option:checked')?.textContent === 'Dinner' && document.getElementById('figures').textContent.startsWith('Orders0of 7')`)
	const buyer = "4711"
	paid := v.buys(url, buyer)

	v.do(`document.querySelector('#sold summary').click()`)
	v.until("the order is listed with its buyer", `document.getElementById('sold-list').textContent.includes('PaidBuyer `+buyer+`')`)
	v.do(`document.querySelector('#sold-list button').click()`)
	v.until("it is asked", `document.getElementById('sure').open && document.getElementById('sure-text').textContent === 'Buyer `+buyer+` gets €80 back, and the unit goes back on sale.'`)
	fail.Unequal(t, v.says(`document.activeElement.value`), "no", "the answer that the keyboard gives at once")
	v.accessible("a console that asks")
	v.do(`window.refunds = 0; window.fetching = window.fetch; window.fetch = (address, options) => {
		if (address.endsWith('/refund')) refunds++;
		return window.fetching(address, options);
	}; window.answers = 0; document.getElementById('sure').addEventListener('close', () => answers++);
	document.querySelector('#sure [value=no]').click()`)
	v.until("the answer is taken", `answers === 1`)
	v.do(`document.querySelector('#sold-list button').click(); document.querySelector('#sure [value=yes]').click()`)
	v.until("the money goes back", `document.getElementById('sold-outcome').textContent.includes('goes back to buyer') && document.querySelector('#sold-list button').hidden`)
	v.do(`document.querySelector('#languages [lang=zh]').click()`)
	v.until("it is said in the language that is chosen", `document.getElementById('sold-outcome').textContent.includes('正在向买家')`)
	v.do(`document.querySelector('#languages [lang=en]').click()`)
	v.until("it has gone back", `document.getElementById('sold-again').click() || document.getElementById('sold-list').textContent.includes('Refunded')`)
	fail.Unequal(t, v.says(`refunds`), "1", "refunds, of which one was confirmed")
	v.do(`window.fetch = window.fetching`)
	if _, body := harness.Call(t, http.MethodGet, paid, http.Header{"X-User-Id": {buyer}}, ""); !strings.Contains(body, `"status":"refunded"`) {
		t.Errorf("the order: %s", body)
	}

	v.do(`document.getElementById('steer-add').value = '3'; document.getElementById('steer-add-go').click()`)
	v.until("the refill has a mark", `[...document.querySelectorAll('#chart .mark-name')].some((m) => m.textContent === '3 units added')`)
	v.until("what comes next can be sent", `!document.getElementById('steer-pause').disabled`)
	v.do(`document.getElementById('steer-pause').click()`)
	v.until("the pause has a mark", `document.getElementById('chart-text').textContent.includes('Paused, ')`)

	v.do(`document.querySelector('#languages [lang=zh]').click()`)
	for add, says := range map[string]string{"-100": "未售出的数量不足：最多可减少 9。", "10000000": "服务器不接受“增加数量，负数为减少”的值。"} {
		v.until("what comes next can be sent", `!document.getElementById('steer-add-go').disabled`)
		v.do(fmt.Sprintf(`document.getElementById('steer-add').value = %q; document.getElementById('steer-add-go').click()`, add))
		v.until("a refusal is in the visitor's language", fmt.Sprintf(`document.getElementById('steer-outcome').textContent === %q`, says))
	}
	v.do(`document.querySelector('#languages [lang=en]').click()`)
	v.until("it can be copied", `!document.getElementById('steer-copy').disabled`)
	v.do(`document.getElementById('customise').open = true`)
	v.accessible("a console on which everything is open")
	v.do(`for (const id of ['title', 'stock', 'price', 'value', 'lasts', 'paywithin']) document.getElementById(id).value = '';
		document.querySelector('#presets [value=admission]').click(); document.getElementById('steer-copy').click()`)
	fail.Unequal(t, v.says(`['title', 'stock', 'price', 'value', 'lasts', 'paywithin'].map((id) => document.getElementById(id).value) + document.querySelector('.preset.chosen input').value`),
		"Dinner,10,80,100,45,600oversell", "the form has")
	v.do(`document.getElementById('title').value = 'Supper'; document.querySelector('#offer .go').click()`)
	v.until("the copy is watched", `document.querySelector('#sale option:checked')?.textContent === 'Supper' && document.getElementById('policy-of').textContent.includes('stock unguarded')`)

	v.steersWhatItShows()
	v.projects(t)
	v.untroubled(url, http.StatusConflict, http.StatusBadRequest)
}

// steersWhatItShows sends a change, and chooses another sale before it is answered: the next change is of that sale. A
// sale that is deleted makes way for another one.
func (v *visitor) steersWhatItShows() {
	v.t.Helper()
	v.do(`window.changed = []; window.answered = 0; window.fetching = window.fetch; window.fetch = async (address, options) => {
		if (!['PATCH', 'DELETE'].includes(options?.method)) return window.fetching(address, options);
		changed.push(address);
		await new Promise((resolve) => setTimeout(resolve, 500));
		const answer = await window.fetching(address, options);
		answered++;
		return answer;
	}`)
	v.until("it can be steered", `!document.getElementById('steer-pause').disabled`)
	v.do(`document.getElementById('steer-pause').click(); {
		const sale = document.getElementById('sale');
		sale.value = [...sale.options].find((o) => o.textContent === 'Dinner').value;
		sale.dispatchEvent(new Event('input')); }`)
	v.until("the other one can be steered", `answered === 1 && !document.getElementById('steer-pause').disabled`)
	v.do(`document.getElementById('steer-pause').click()`)
	v.until("a change is sent", `answered === 2`)
	fail.Unequal(v.t, v.says(`changed[0] !== changed[1] && changed[1].endsWith('/' + document.getElementById('sale').value)`), "true", "the sale that is shown was changed")
	v.do(`{ const sale = document.getElementById('sale');
		sale.value = [...sale.options].find((o) => o.textContent === 'Supper').value;
		sale.dispatchEvent(new Event('input')); }`)
	v.until("it can be deleted", `!document.getElementById('steer-delete').disabled`)
	v.do(`document.getElementById('steer-delete').click()`)
	v.until("another sale is shown", `answered === 3 && document.querySelector('#sale option:checked')?.textContent !== 'Supper' && document.getElementById('sale').value !== ''
		&& !document.getElementById('steer-pause').disabled`)
	v.do(`window.fetch = window.fetching`)
}

// buys has somebody order the voucher that the console watches, and pay it. It returns the order's address.
func (v *visitor) buys(url, buyer string) (order string) {
	v.t.Helper()
	who := http.Header{"X-User-Id": {buyer}}
	call := func(path, what string) string {
		status, body := harness.Call(v.t, http.MethodPost, url+path, who, "")
		found := regexp.MustCompile(`"` + what + `":"([^"]+)"`).FindStringSubmatch(body)
		if status != http.StatusCreated || found == nil {
			v.t.Fatalf("%s: %d %s", path, status, body)
		}
		return found[1]
	}
	id := call("/api/v1/vouchers/"+v.says(`document.getElementById('sale').value`)+"/orders", "order_id")
	provider := v.another(call("/api/v1/orders/"+id+"/payment", "pay_url"))
	provider.until("the provider's page", `document.querySelector('[value=pay]') !== null`)
	provider.do(`document.querySelector('[value=pay]').click()`)
	provider.arrives("it is paid", `document.querySelector('[role=status]') !== null`)
	return url + "/api/v1/orders/" + id
}

// accessible fails the test if axe-core finds something serious.
func (v *visitor) accessible(what string) {
	v.t.Helper()
	found, err := browser.Inaccessible(v.tab)
	if err != nil || len(found) > 0 {
		v.t.Errorf("%s: %q, %v", what, found, err)
	}
}

// projects shows the verdict and the address alone, in every window, and comes back.
func (v *visitor) projects(t *testing.T) {
	t.Helper()
	for what, seen := range map[string][2]string{"sale": {"#verdict", "#qr"}, "invite": {"#qr", "#verdict"}} {
		v.do(fmt.Sprintf(`document.querySelector('[data-project=%s]').focus()`, what))
		v.press("\r") // a script may not fill the screen
		v.until("the screen is filled", fmt.Sprintf(`document.fullscreenElement !== null && document.body.dataset.projector === %q`, what))
		for width, height := range map[int64]int64{390: 844, 1280: 720, 1920: 1080} {
			fail.NowIf(t, browser.Window(v.tab, width, height, "dark"))
			v.until("it alone is seen, and all of it", fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect();
				return r.top >= 0 && r.bottom <= innerHeight && r.width > innerWidth / 3 && document.querySelector(%q).offsetParent === null
					&& document.getElementById('offer').offsetParent === null; })()`, seen[0], seen[1]))
			if dir := os.Getenv("PAGE_SHOTS"); dir != "" {
				fail.NowIf(t, browser.Shoot(v.tab, dir, fmt.Sprintf("projector-%s-%d", what, width)))
			}
		}
		v.accessible("the projector")
		v.press("\x1b")
		v.until("the whole page is back", `document.getElementById('offer').offsetParent !== null && document.getElementById('projector-end').hidden`)
	}
}
