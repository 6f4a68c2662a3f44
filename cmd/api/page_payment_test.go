package main

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"seckill/internal/testkit"
)

// A voucher that is to be paid is paid at the provider's page, and given back with a button.
func pageTakesToThePayment(b context.Context, t *testing.T) {
	s := start(t, nil, nil)
	url := s.urlOfBanner(t)
	const title = "To be paid"
	status, body := call(t, http.MethodPost, url+"/api/v1/vouchers", nil, fmt.Sprintf(
		`{"title":%q,"stock":5,"price_cents":1250,"value_cents":2000,"pay_within_s":600,"begin_at":%q,"end_at":%q}`,
		title, past.UTC().Format(time.RFC3339Nano), future.UTC().Format(time.RFC3339Nano)))
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	v := visit(b, t, url+"/", "en")
	v.untilThere(title)
	v.do(card(title, ".buy") + `.click()`)
	v.untilOutcome(title, "It is not paid yet")
	v.until("the time to pay is shown", `/^(10:00|09:\d\d) left to pay$/.test(`+card(title, ".due")+`.textContent)`)

	v.do(card(title, ".cancel") + `.focus()`)
	v.press("\r")
	v.untilOutcome(title, "The order is cancelled")
	if got := v.says(`document.activeElement === ` + card(title, ".outcome")); got != "true" {
		t.Errorf("the focus is on %s", v.says(`document.activeElement.outerHTML`))
	}
	v.until("it can be bought again", `!`+card(title, ".buy")+`.hidden && !`+card(title, ".buy")+`.disabled`)
	v.do(card(title, ".buy") + `.click()`)
	v.untilOutcome(title, "It is not paid yet")
	v.untroubled(url)

	v.do(card(title, ".pay") + `.click()`)
	v.arrives("the provider's page", `document.title === "Payment sandbox" && document.querySelector('[value=pay]') !== null`)
	v.do(`document.querySelector('[value=pay]').click()`)
	v.arrives("the provider has the money", `document.querySelector('[role=status]') !== null`)
	v.open(url + "/")
	v.untilThere(title)
	v.untilOutcome(title, "It is yours. The order is paid.")
	v.until("both orders are listed", `[...document.querySelectorAll('#orders .chip')].map((c) => c.textContent).join() === 'Paid,Cancelled'`)
	if got := v.says(card(title, ".bill") + `.hidden`); got != "true" {
		t.Error("what is paid can be paid again")
	}
}

// arrives waits until an expression is true on a page that the tab is on its way to. While a tab goes from one page
// to the next, nothing can be asked.
func (v *visitor) arrives(what, expression string) {
	v.t.Helper()
	testkit.Until(v.t, what, func() bool {
		is, err := chromedp.Run(v.tab, chromedp.Evaluate[bool](expression))
		return err == nil && is
	})
}
