package pages

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A page with 200 vouchers that count down, in a browser four times as slow as this machine: a second keeps it for less than
// 50 ms while stock is sold, but for a few of them, in which the machine had more to do; and what is on it does not move.
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
	tab, notes := browser.Open(t)
	fail.NowIf(t, browser.Window(tab, 390, 844, "light"))
	_, err := chromedp.Call(tab, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 4})
	fail.NowIf(t, err)
	v := &visitor{t, tab, notes}
	v.open(url + "/")
	v.untilThere("Sold")
	v.do(`globalThis.long = []; globalThis.shift = 0; globalThis.moved = []; globalThis.paint = 0;
		new PerformanceObserver((l) => { for (const e of l.getEntries()) long.push(Math.round(e.duration)); }).observe({ type: 'longtask' });
		new PerformanceObserver((l) => { for (const e of l.getEntries()) if (!e.hadRecentInput) { shift += e.value; moved.push(...e.sources.map((o) => o.node?.nodeName + '.' + o.node?.className)); } }).observe({ type: 'layout-shift', buffered: true });
		new PerformanceObserver((l) => { for (const e of l.getEntries()) paint = Math.round(e.startTime); }).observe({ type: 'largest-contentful-paint', buffered: true })`)
	for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
		harness.Call(t, "POST", orders, map[string][]string{"X-User-Id": {strconv.FormatInt(time.Now().UnixNano(), 10)}}, "")
		_, err := chromedp.Run(tab, chromedp.Evaluate[bool](`new Promise((r) => setTimeout(() => r(true), 100))`, chromedp.EvalAwaitPromise))
		fail.NowIf(t, err)
	}
	long := v.says(`long.join()`)
	t.Logf("tasks of 50 ms or more: [%s]; layout shift %s; largest contentful paint %s ms", long, v.says(`shift.toFixed(3)`), v.says(`paint`))
	if n := len(strings.FieldsFunc(long, func(r rune) bool { return r == ',' })); n > seconds/3 {
		t.Errorf("%d tasks in %d s took 50 ms or more", n, seconds)
	}
	shift, err := strconv.ParseFloat(v.says(`shift`), 64)
	if err != nil || shift >= 0.05 {
		t.Errorf("the layout shift is %v (%v), want less than 0.05; what moved: %s", shift, err, v.says(`[...new Set(moved)].join()`))
	}
}
