package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// format is an output format for buyers: what comes first, between two of them and last, and
// one buyer.
type format struct {
	open, between, close string
	line                 func(i int64, who identity) ([]byte, error)
}

func newFormat(req request) format {
	switch req.format {
	case "k6":
		return format{open: "[\n", between: ",\n", close: "\n]\n", line: func(_ int64, who identity) ([]byte, error) {
			return json.Marshal(who.token())
		}}
	case "vegeta":
		return format{between: "\n", close: "\n", line: func(i int64, who identity) ([]byte, error) {
			return json.Marshal(newTarget(req, i, who))
		}}
	}
	return format{between: "\n", close: "\n", line: func(_ int64, who identity) ([]byte, error) {
		return []byte(who.token()), nil
	}}
}

func (w identity) token() string { return strings.TrimPrefix(w.value, "Bearer ") }

// target is one request in vegeta's JSON format (see its target.schema.json): method and url
// are required, each header has a list of values. A body would be base64; an order has none.
type target struct {
	Method string              `json:"method"`
	URL    string              `json:"url"`
	Header map[string][]string `json:"header"`
}

func newTarget(req request, i int64, who identity) target {
	base := req.baseURLs[i%int64(len(req.baseURLs))]
	return target{
		Method: "POST",
		URL:    fmt.Sprintf("%s/api/v1/vouchers/%d/orders", base, req.voucher),
		Header: map[string][]string{who.header: {who.value}},
	}
}
