package fulfil

import (
	"fmt"
	"slices"
	"testing"
)

// An entry has one order or several. Order, user and epoch are required; sequence number and trace are optional.
func TestParse(t *testing.T) {
	t.Parallel()
	s := newStream("", 3, 1)
	type fields = map[string]any
	for name, test := range map[string]struct {
		fields fields
		want   []string // user, order, key, epoch, sequence number, trace, time
	}{
		"one order":                       {fields{"o": "5", "u": "6", "e": "2", "s": "9", "p": "00-a"}, []string{"6 5 0 2 9 00-a 1234 ok"}},
		"a key":                           {fields{"o": "5:__________8", "u": "6", "e": "2"}, []string{"6 5 -1 2 0  1234 ok"}},
		"a key that is too short":         {fields{"o": "5:AAAA", "u": "6", "e": "2"}, []string{"6 0 0 2 0  1234 malformed"}},
		"a trace that is a number":        {fields{"o": "5", "u": "6", "e": "2", "p": 3}, []string{"6 5 0 2 0  1234 ok"}},
		"no user":                         {fields{"o": "5", "e": "2"}, []string{"0 5 0 2 0  1234 malformed"}},
		"an order that is not a number":   {fields{"o": "x", "u": "6", "e": "2"}, []string{"6 0 0 2 0  1234 malformed"}},
		"epoch 0":                         {fields{"o": "5", "u": "6", "e": "0"}, []string{"6 5 0 0 0  1234 malformed"}},
		"a sequence that is not a number": {fields{"o": "5", "u": "6", "e": "2", "s": "-"}, []string{"6 5 0 2 0  1234 ok"}},

		"two orders":                {fields{"e": "2", "s": "9", "p": "00-a", "7": "6", "8": "5:__________8"}, []string{"8 5 -1 2 9 00-a 1234 ok", "7 6 0 2 9 00-a 1234 ok"}},
		"accepted earlier":          {fields{"e": "2", "7": "6", "t": "1000"}, []string{"7 6 0 2 0  1000 ok"}},
		"a user that is no number":  {fields{"e": "2", "7": "6", "x": "5"}, []string{"0 5 0 2 0  1234 malformed", "7 6 0 2 0  1234 ok"}},
		"an order that is no order": {fields{"e": "2", "7": "-", "8": "5"}, []string{"7 0 0 2 0  1234 malformed", "8 5 0 2 0  1234 ok"}},
		"no epoch":                  {fields{"7": "6", "8": "5"}, []string{"8 5 0 0 0  1234 malformed", "7 6 0 0 0  1234 malformed"}},
		"nothing but an epoch":      {fields{"e": "2"}, []string{"0 0 0 2 0  1234 malformed"}},
		"an order besides its user": {fields{"e": "2", "u": "7", "8": "5"}, []string{"7 0 0 2 0  1234 malformed"}},
	} {
		all := parse(s, "1234-0", test.fields)
		var got []string
		for _, e := range all {
			o, verdict := e.order, "ok"
			if e.malformed != nil {
				verdict = "malformed"
			}
			got = append(got, fmt.Sprintf("%d %d %d %d %d %s %d %s", o.UserID, o.OrderID, o.Key, o.Epoch, o.Seq, o.Trace, o.At.UnixMilli(), verdict))
			if o.VoucherID != 3 || o.Bucket != 1 || e.deleted || (len(all) > 1) != (e.group != nil) || e.group != nil && e.group.size != len(all) {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	if all := parse(s, "1234-0", nil); len(all) != 1 || !all[0].deleted {
		t.Errorf("a deleted entry: %+v", all)
	}
}
