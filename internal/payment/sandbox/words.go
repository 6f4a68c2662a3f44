package sandbox

import (
	"net/http"
	"strings"
)

// words are the texts of the pages in a language.
type words struct {
	Language, Title, NoMoney, Missing, Order, Pay, Refuse, Until, LeftToPay, Processing, HasPaid, GivenBack, Refused, Again, Expired, Return string
}

func english() words {
	return words{
		Language: "en", Title: "Payment sandbox", NoMoney: "Payment sandbox: no money moves here.", Missing: "There is no such payment",
		Order: "Order", Pay: "Pay", Refuse: "Refuse", Until: "Until", LeftToPay: "left to pay",
		Processing: "You have paid. The money is on its way.", HasPaid: "Paid.", GivenBack: "given back.",
		Refused: "You have refused to pay. Nothing was taken.", Again: "Try again: pay", Expired: "The time to pay is over.", Return: "Back to the shop",
	}
}

func chinese() words {
	return words{
		Language: "zh-CN", Title: "支付沙箱", NoMoney: "支付沙箱：这里不会发生真实扣款。", Missing: "没有这笔支付",
		Order: "订单", Pay: "支付", Refuse: "拒绝", Until: "截止", LeftToPay: "后超时",
		Processing: "您已付款，款项正在途中。", HasPaid: "已付款。", GivenBack: "已退回。",
		Refused: "您已拒绝付款，没有扣款。", Again: "重试：支付", Expired: "支付时间已过。", Return: "返回商城",
	}
}

// wordsFor returns the texts in the language that the visitor prefers of the two.
func wordsFor(r *http.Request) words {
	for tag := range strings.SplitSeq(strings.ToLower(strings.Join(r.Header.Values("Accept-Language"), ",")), ",") {
		switch tag, _, _ = strings.Cut(strings.TrimSpace(tag), ";"); {
		case tag == "en" || strings.HasPrefix(tag, "en-"):
			return english()
		case tag == "zh" || strings.HasPrefix(tag, "zh-"):
			return chinese()
		}
	}
	return english()
}
