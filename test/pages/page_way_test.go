package pages

import (
	"context"
	"testing"
	"time"

	"seckill/internal/testkit/browser"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// pageWay is a buyer's way on a phone: what comes next, the countdown, the purchase, the payment, and what was bought.
// A buyer who comes too late sees when the unit may return.
func pageWay(b context.Context, t *testing.T) {
	s := harness.StartInProcess(t, nil, nil)
	url := s.URLOfBanner(t)
	const title = "Breakfast"
	sellUnpaid(t, url, title, 1, time.Now().Add(8*time.Second))
	v := visit(b, t, url+"/", "en")
	fail.NowIf(t, browser.Window(v.tab, 390, 844, "light"))
	v.untilThere(title)
	slot := card(title, ".slot")
	v.do(`globalThis.heights = new Set(); globalThis.titles = new Set(); setInterval(() => { heights.add(` + slot + `.offsetHeight); titles.add(document.title); }, 50)`)
	v.until("it has opened", `!`+card(title, ".buy")+`.disabled`)
	v.until("the title has counted down", `[...titles].some((t) => /^00:0\d · Flash sale$/.test(t))`)
	v.do(card(title, ".buy") + `.click()`)
	v.until("it is to be paid", card(title, ".pay")+`.textContent === 'Pay €12.50' && document.getElementById('next-what').textContent === 'To be paid:'`)
	v.until("the strip says how long", `/^(10:00|09:\d\d)$/.test(document.getElementById('next-left').textContent)`)

	late := v.another(url + "/")
	late.untilThere(title)
	late.until("all are reserved, and some may return", card(title, ".buy")+`.textContent === 'All reserved' && /^All are reserved. Some may return at .*\d\d:\d\d/.test(`+card(title, ".when")+`.textContent)`)
	fail.Unequal(t, late.says(`document.querySelector('#chips [value=sold_out]').textContent`), "Sold out 1", "the chip")
	late.do(`document.querySelector('#languages [lang=zh]').click()`)
	late.until("in Chinese too", card(title, ".buy")+`.textContent === '已订满'`)
	late.do(`document.querySelector('#languages [lang=en]').click()`)

	fail.Unequal(t, v.says(`[...heights].join()`), "54", "the slot was as high as")
	v.do(card(title, ".pay") + `.click()`)
	v.arrives("the provider's page", `document.querySelector('[value=pay]') !== null`)
	v.do(`document.querySelector('[value=pay]').click()`)
	v.arrives("the provider has the money", `document.querySelector('[role=status]') !== null && document.querySelector('form') === null`)
	v.do(`document.querySelector('main a').click()`)
	v.arrives("the order has its code", `document.getElementById('order')?.open && document.getElementById('order-qr').naturalWidth > 0`)
	v.do(`document.getElementById('order-close').click()`)
	v.until("the address is the page's", `location.href === '`+url+`/'`)
	v.until("it is in its slot", card(title, ".see")+`.textContent === 'Yours: show it'`)
	fail.Unequal(t, v.says(`document.getElementById('next').hidden + document.title`), "trueFlash sale", "after the payment the strip and the title")
	v.do(card(title, ".see") + `.click()`)
	v.until("it can be opened again", `document.getElementById('order').open && document.getElementById('order-state').textContent.includes('The order is paid')`)
	late.until("nothing is reserved any more", card(title, ".buy")+`.textContent === 'Sold out' && `+card(title, ".when")+`.textContent === ''`)
}
