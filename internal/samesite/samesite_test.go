package samesite_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"seckill/internal/samesite"
)

// A name is compared as what it means, however it is written.
func TestNamesInOtherForms(t *testing.T) {
	guard := samesite.New("Shop.example.", "2001:DB8:0::1", "[2001:db8::2]", "::ffff:10.0.0.1")
	for host, want := range map[string]error{
		"shop.EXAMPLE:8080": nil, "shop.example.": nil, "[2001:db8::1]:8080": nil, "[2001:0db8:0::1]": nil, "[2001:db8::2]": nil,
		"10.0.0.1": nil, "[::ffff:10.0.0.1]:80": nil, "[::1]:80": nil, "127.8.8.8": nil, "localhost:1": nil,
		"": nil, "shop.localhost:8080": nil, "[::1%lo]:8080": nil, "::1%lo": nil,
		"example": samesite.ErrHost, "shop.example.org": samesite.ErrHost, "[2001:db8::3]": samesite.ErrHost, "10.0.0.2": samesite.ErrHost, "localhost.example": samesite.ErrHost, "notlocalhost": samesite.ErrHost, "[fe80::1%lo]": samesite.ErrHost,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if err := guard.Check(r); !errors.Is(err, want) {
			t.Errorf("Host %q: %v, want %v", host, err, want)
		}
	}
}
