package pages

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// consoleShowsOversold: a teacher puts a voucher on sale that is not safe, is warned, sends a rush, and sees what
// became of it; the same with the safe policy.
func consoleShowsOversold(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	v := visit(b, t, url+"/console", "en")
	v.until("the first voucher is watched", `document.getElementById('verdict').textContent.startsWith('It adds up')`)
	v.until("it is safe, and the form says so", `document.getElementById('warnings').textContent.startsWith('Safe')`)

	offer := func(preset, title string) {
		t.Helper()
		v.do(fmt.Sprintf(`{ document.querySelector('#presets [value=%s]').click();
			document.getElementById('title').value = %q; document.getElementById('stock').value = '10';
			{ const p = document.getElementById('policy-pause_ms'); p.value = '3000'; p.dispatchEvent(new Event('input')); } // all read before the first one writes, on any machine
			document.querySelector('#offer .go').click(); }`, preset, title))
		v.until("it is watched", fmt.Sprintf(`document.querySelector('#sale option:checked')?.textContent === %q && document.getElementById('figures').textContent.startsWith('Orders0of 10')`, title))
	}
	rush := func() {
		t.Helper()
		v.do(`document.getElementById('buyers').value = '100'; document.getElementById('rush-go').click()`)
		v.until("the rush is over", `document.getElementById('rush-outcome').textContent.startsWith('100 buyers')`)
	}
	// The title is what the buyers read: no preset writes its lesson there. A lock that this server does not have is
	// not called safe.
	title := v.says(`document.getElementById('title').value`)
	v.do(`{ document.querySelector('#presets [value=oversell]').click(); }`)
	fail.Unequal(t, v.says(`document.getElementById('title').value`), title, "the title, after a preset")
	v.do(`{ document.querySelector('#presets [value=locked]').click();
		const l = document.getElementById('policy-lock'); l.value = 'zk-queue'; l.dispatchEvent(new Event('input')); }`)
	if got := v.says(`document.querySelector('#policy-lock [value=zk-queue]').disabled + document.getElementById('warnings').textContent`); !strings.HasPrefix(got, "trueThis server does not have") {
		t.Errorf("of a lock that this server does not have it is said %q", got)
	}
	offer("oversell", "Weak")
	if got := v.says(`document.querySelectorAll('#warnings .bad').length`); got != "3" { // lock, stock, fault
		t.Errorf("%s warnings: %s", got, v.says(`document.getElementById('warnings').innerText`))
	}
	rush()
	v.until("it is said that it was oversold", `/^Oversold by \d+$/.test(document.getElementById('verdict').textContent) &&
		document.getElementById('verdict').className === 'verdict alarm'`)
	v.until("the answers are counted", `document.getElementById('outcomes').textContent.includes('Confirmed')`)
	v.until("a line is drawn", `document.querySelector('#chart .orders')?.getAttribute('points').split(' ').length > 1`)
	v.until("what is beyond the stock is red, and the rush has a mark", `(() => {
		const top = (of) => Math.min(...document.querySelector('#chart ' + of).getAttribute('points').split(' ').map((p) => Number(p.split(',')[1])));
		return top('.over') < top('.limit') - 50 && document.querySelector('#chart .mark-name')?.textContent === 'Rush';
	})()`)
	v.until("the latency is told", `/Latency, p50\d.*p95 \d.*p99 \d/.test(document.getElementById('figures').textContent)`)
	fail.Unequal(t, v.says(`document.getElementById('qr').alt`), "QR code of "+url+"/", "the picture")
	fail.Unequal(t, v.says(`document.getElementById('lock').textContent`), "Holdernone: each buyer reads and writes at once", "of the lock it is said")
	consoleFits(t, v)

	offer("admission", "Safe")
	rush()
	v.until("it adds up", `document.getElementById('verdict').textContent.startsWith('It adds up') && document.getElementById('figures').textContent.startsWith('Orders10of 10')`)
	fail.Unequal(t, v.says(`document.getElementById('lock').textContent`), "Holdernone: the admission flow takes no lock", "of the lock it is said")
	offer("locked", "Locked")
	v.until("the lock is seen", `document.getElementById('lock').textContent.includes('Holder')`)
	rush()
	v.until("ten are sold", `document.getElementById('figures').textContent.startsWith('Orders10of 10')`)
	consoleSteers(v)
	// Whether one of ten quick orders waits for another depends on the machine.
	v.until("the handovers of the lock are seen", `/Holders so far[1-9]\d*Handed over\d+: \d+ in this process, \d+ by the store/.test(document.getElementById('lock').textContent)`)
	v.untroubled(url)
}

// consoleSteers adds units to the sale, pauses and resumes it, and sees who did.
func consoleSteers(v *visitor) {
	v.do(`document.getElementById('steer-add').value = '5'; document.getElementById('steer-add-go').click()`)
	v.until("units are added", `document.getElementById('figures').textContent.startsWith('Orders10of 15') && document.getElementById('changes').textContent.includes('units 10 → 15')`)
	v.do(`document.getElementById('steer-pause').click()`)
	v.until("it is paused", `document.getElementById('steer-state').textContent.startsWith('Paused') && document.getElementById('steer-pause').textContent === 'Resume'`)
	v.do(`document.getElementById('steer-pause').click()`)
	v.until("it is resumed", `document.getElementById('steer-state').textContent.startsWith('It ends') && document.getElementById('changes').children.length === 3`)
}

// consoleFits looks at the console in every window.
func consoleFits(t *testing.T, v *visitor) {
	t.Helper()
	for _, w := range windows() {
		fail.NowIf(t, browser.Window(v.tab, w.width, 1000, w.scheme))
		for _, language := range []string{"en", "zh"} {
			name := fmt.Sprintf("console-%d-%s-%s", w.width, w.scheme, language)
			v.do(fmt.Sprintf(`document.querySelector('#languages [lang=%s]').click()`, language))
			// On a phone too, the button that sends a rush and the verdict are seen together, wherever the page is.
			v.do(`document.getElementById('chart').scrollIntoView()`)
			if got := v.says(`['rush-go', 'verdict'].every((id) => { const r = document.getElementById(id).getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })`); got != "true" {
				t.Errorf("%s: the button and the verdict are not seen together", name)
			}
			v.do(`scrollTo(0, 0)`)
			fail.Unequal(t, v.says(`document.documentElement.scrollWidth - document.documentElement.clientWidth`), "0", "%s: pixels too wide", name)
			if w.looked && language == "en" {
				v.accessible(name)
			}
			if dir := os.Getenv("PAGE_SHOTS"); dir != "" {
				fail.NowIf(t, browser.Shoot(v.tab, dir, name))
			}
		}
	}
	v.do(`document.querySelector('#languages [lang=en]').click()`)
	pageInContrast(t, v, ".watch")
}

// consoleAsksForTheToken: outside lab mode the console is the administrator's, cannot send a rush, and says that the
// service refuses what is not safe.
func consoleAsksForTheToken(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, []string{"-lab=false"}, []string{"SECKILL_JWT_SECRET=" + harness.Secret, "SECKILL_ADMIN_TOKEN=" + harness.AdminToken})
	url := s.URLOfBanner(t)
	v := visit(b, t, url+"/console", "en")
	use := func(token string) {
		t.Helper()
		v.until("the console asks for the token", `document.getElementById('identity').open`)
		v.do(fmt.Sprintf(`document.getElementById('token').value = %q; document.querySelector('#identity .go').click()`, token))
	}
	use("not the administrator's")
	v.until("it is said that the token is refused", `document.getElementById('identity-error').textContent.includes('does not accept')`)
	use(harness.AdminToken)
	v.until("the figures are there", `document.getElementById('verdict').textContent.startsWith('It adds up')`)
	v.until("the sale can be steered", `!document.getElementById('steer-pause').disabled`)
	fail.Unequal(t, v.says(`document.getElementById('rush')`), "null", "there is a rush")
	v.do(`{ document.querySelector('#presets [value=oversell]').click();
		document.querySelector('#offer .go').click(); }`)
	v.until("it is refused", `document.getElementById('offer-outcome').textContent.includes('a server in lab mode')`)
	v.untroubled(url, http.StatusUnauthorized, http.StatusForbidden)
}
