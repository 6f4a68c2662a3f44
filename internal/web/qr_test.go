package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"rsc.io/qr"

	"seckill/internal/testkit/fail"
	"seckill/internal/web"
)

// The picture has a square for each dark module of the code, within the margin that a reader needs.
func TestQR(t *testing.T) {
	s := newSite(t)
	const address = "http://192.168.0.17:8080/#order=260111955275051827"
	picture := get(t, s, web.QRPath+"?text="+url.QueryEscape(address))
	fail.Unequal(t, picture.Header.Get("Content-Type"), "image/svg+xml", "Content-Type")
	code, err := qr.Encode(address, qr.M)
	fail.NowIf(t, err)
	svg, dark := text(t, picture), 0
	fail.Without(t, svg, fmt.Sprintf(`viewBox="0 0 %[1]d %[1]d"`, code.Size+8))
	for y := range code.Size {
		for x := range code.Size {
			drawn := strings.Contains(svg, fmt.Sprintf("M%d %dh1v1h-1z", x+4, y+4))
			if drawn != code.Black(x, y) {
				t.Fatalf("the module at %d, %d is drawn: %v", x, y, drawn)
			}
			if drawn {
				dark++
			}
		}
	}
	fail.Unequal(t, strings.Count(svg, "h1v1h-1z"), dark, "squares")
	for _, text := range []string{"", strings.Repeat("x", 301)} {
		if got := get(t, s, web.QRPath+"?text="+text).StatusCode; got != http.StatusBadRequest {
			t.Errorf("a text of %d bytes: %d", len(text), got)
		}
	}
}
