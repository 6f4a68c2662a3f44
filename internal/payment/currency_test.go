package payment

import (
	"strings"
	"testing"
)

func TestCheckCurrency(t *testing.T) {
	for code, want := range map[string]string{
		"EUR": "", "USD": "", "CNY": "",
		"": "three letters", "eur": "three letters", "EURO": "three letters", "EU1": "three letters",
		"JPY": "the minor unit of JPY", "KRW": "the minor unit of KRW", "XOF": "the minor unit of XOF", "KWD": "the minor unit of KWD", "UYW": "the minor unit of UYW",
	} {
		err := CheckCurrency(code)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", code, err, want)
		}
	}
}
