package pages

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// observed notes what a visitor sees of the loading of a page: when its largest part is painted, and by how much what
// is on it moves.
const observed = `globalThis.shift = 0; globalThis.moved = []; globalThis.paint = 0;
	new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) { shift += e.value; moved.push(...e.sources.map((o) => [o.node?.nodeName, o.node?.className, o.previousRect.top, '→', o.currentRect.top].join(' '))); } }).observe({ type: 'layout-shift', buffered: true });
	new PerformanceObserver((l) => { for (const e of l.getEntries()) paint = Math.round(e.startTime); }).observe({ type: 'largest-contentful-paint', buffered: true })`

// slow opens a page on a phone that is four times as slow as this machine. The browser's figures are the time for which
// the page had the processor: what else the machine does is not in them.
func slow(t *testing.T, url string) *visitor {
	t.Helper()
	tab, notes := browser.Open(t)
	fail.NowIf(t, browser.Window(tab, 390, 844, "light"))
	_, err := chromedp.Call(tab, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 4})
	fail.NowIf(t, err)
	_, err = chromedp.Call(tab, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	fail.NowIf(t, err)
	_, err = chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: observed})
	fail.NowIf(t, err)
	v := &visitor{t, tab, notes}
	v.open(url)
	return v
}

// processor returns the time that the tasks of the page have taken, and its scripts alone, in ms.
func (v *visitor) processor() (tasks, scripts float64) {
	v.t.Helper()
	all, err := chromedp.Call(v.tab, performance.GetMetrics, cdp.Empty{})
	fail.NowIf(v.t, err)
	for _, m := range all.Metrics {
		switch m.Name {
		case "TaskDuration":
			tasks = 1000 * m.Value
		case "ScriptDuration":
			scripts = 1000 * m.Value
		}
	}
	return tasks, scripts
}

// stays fails the test if what is on the page has moved.
func (v *visitor) stays(what string) {
	v.t.Helper()
	v.t.Logf("%s: layout shift %s; largest contentful paint %s ms; moved: %s", what, v.says(`shift.toFixed(3)`), v.says(`paint`), v.says(`[...new Set(moved)].join()`))
	if shift, err := strconv.ParseFloat(v.says(`shift`), 64); err != nil || shift >= 0.05 {
		v.t.Errorf("%s: the layout shift is %v (%v), want less than 0.05", what, shift, err)
	}
}

// A page with 200 vouchers that count down: a second takes it less than 50 ms while stock is sold, and nothing moves.
func TestSoakPageOfMany(t *testing.T) {
	testkit.Soak(t)
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	for i := range 100 {
		sell(t, url, fmt.Sprint("Open ", i), 5, past, time.Now().Add(time.Hour), `{}`)
		sell(t, url, fmt.Sprint("Soon ", i), 5, time.Now().Add(time.Hour), future, `{}`)
	}
	const seconds = 15
	orders := sell(t, url, "Sold", 500, past, time.Now().Add(time.Hour), `{}`)
	v := slow(t, url+"/")
	v.untilThere("Sold")
	time.Sleep(3 * time.Second) // what follows the first view
	tasks, scripts := v.processor()
	began := time.Now()
	for time.Since(began) < seconds*time.Second {
		harness.Call(t, "POST", orders, map[string][]string{"X-User-Id": {strconv.FormatInt(time.Now().UnixNano(), 10)}}, "")
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began).Seconds()
	after, scriptsAfter := v.processor()
	t.Logf("a second takes the page %.1f ms, of which its scripts take %.1f ms", (after-tasks)/took, (scriptsAfter-scripts)/took)
	if each := (after - tasks) / took; each >= 50 {
		t.Errorf("a second takes the page %.1f ms, want less than 50", each)
	}
	v.stays("the buyers' page")
}

// What is on the other pages does not move either while they load, and while a rush is on.
func TestSoakPagesStay(t *testing.T) {
	testkit.Soak(t)
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	v := slow(t, url+"/console")
	v.until("the console has figures", `document.getElementById('verdict').className === 'verdict good'`)
	time.Sleep(3 * time.Second)
	v.stays("the console")
	v.do(`document.getElementById('sale').value = [...document.querySelectorAll('#sale option')].find((o) => o.textContent === '100 for 80').value;
		document.getElementById('sale').dispatchEvent(new Event('input')); document.getElementById('rush-go').click()`)
	v.until("the rush is over", `document.getElementById('rush-outcome').textContent.startsWith('200 buyers')`)
	time.Sleep(3 * time.Second)
	v.stays("the console, after a rush")

	v.open(url + "/")
	const title = "100 for 80, to be paid"
	v.untilThere(title)
	v.do(card(title, ".buy") + `.click()`)
	v.untilOutcome(title, "not paid yet")
	v.stays("the buyers' page, after a purchase")
	v.do(card(title, ".pay") + `.click()`)
	v.arrives("the provider's page", `document.querySelector('[value=pay]') !== null`)
	time.Sleep(time.Second)
	v.stays("the provider's page")
	v.do(`document.querySelector('[value=pay]').click()`)
	v.arrives("it is paid", `document.querySelector('[role=status]') !== null && document.querySelector('form') === null`)
	v.do(`document.querySelector('main a').click()`)
	v.arrives("the order's page", `document.getElementById('order')?.open && document.getElementById('order-state').textContent.includes('paid')`)
	time.Sleep(time.Second)
	v.stays("the order's page")
}
