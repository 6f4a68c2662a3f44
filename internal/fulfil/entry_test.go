package fulfil

import (
	"testing"
	"time"

	"seckill/internal/order"
)

// Order, user and epoch are required; sequence number and trace are optional.
func TestParse(t *testing.T) {
	s := newStream("", 7, 2)
	type fields = map[string]any
	whole := order.Accepted{OrderID: 5, VoucherID: 7, UserID: 6, At: time.UnixMilli(1234).UTC(), Epoch: 2, Seq: 9, Bucket: 2, Trace: "00-a"}
	bare := whole
	bare.Seq, bare.Trace = 0, ""
	keyed := bare
	keyed.Key = -1
	for name, test := range map[string]struct {
		fields fields
		want   order.Accepted
		bad    bool
	}{
		"all fields":                      {fields{"o": "5", "u": "6", "e": "2", "s": "9", "p": "00-a"}, whole, false},
		"a key":                           {fields{"o": "5:__________8", "u": "6", "e": "2"}, keyed, false},
		"a key that is too short":         {fields{"o": "5:AAAA", "u": "6", "e": "2"}, order.Accepted{}, true},
		"no trace":                        {fields{"o": "5", "u": "6", "e": "2"}, bare, false},
		"a trace that is a number":        {fields{"o": "5", "u": "6", "e": "2", "p": 3}, bare, false},
		"no user":                         {fields{"o": "5", "e": "2"}, order.Accepted{}, true},
		"an order that is not a number":   {fields{"o": "x", "u": "6", "e": "2"}, order.Accepted{}, true},
		"epoch 0":                         {fields{"o": "5", "u": "6", "e": "0"}, order.Accepted{}, true},
		"a sequence that is not a number": {fields{"o": "5", "u": "6", "e": "2", "s": "-"}, bare, false},
	} {
		e := parse(s, "1234-0", test.fields)
		if (e.malformed != nil) != test.bad || e.deleted || !test.bad && e.order != test.want {
			t.Errorf("%s: %+v, %v", name, e.order, e.malformed)
		}
	}
	if e := parse(s, "1234-0", nil); !e.deleted {
		t.Errorf("a deleted entry: %+v", e)
	}
}
