package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// object reads the members of a JSON object by name and type, and reports the first error in words for the client. It
// is stricter than decoding into a struct: names are case-sensitive, a duplicate name, null and an unknown member are
// errors.
type object struct {
	*decoding
	path    string // "policy." inside the policy
	members map[string]json.RawMessage
}

// decoding is the state that the objects of one body share.
type decoding struct {
	err error // the first error
}

// decodeObject calls read with the members of body, which must be a JSON object. read takes the members that it knows.
func decodeObject(body []byte, read func(*object)) error {
	d := &decoding{}
	var syntax *json.SyntaxError
	var whole json.RawMessage
	switch err := json.Unmarshal(body, &whole); {
	case !utf8.Valid(body):
		d.fail("the body is not UTF-8")
	case errors.As(err, &syntax):
		d.fail("the body is not valid JSON: %v, after %d bytes", syntax, syntax.Offset)
	case err != nil:
		d.fail("the body is not valid JSON")
	default:
		d.readObject("", whole, read)
	}
	return d.err
}

func (d *decoding) fail(format string, args ...any) {
	if d.err == nil {
		d.err = invalid(format, args...)
	}
}

// readObject reads raw, which is valid JSON. path is its position in the body.
func (d *decoding) readObject(path string, raw json.RawMessage, read func(*object)) {
	o := &object{decoding: d, members: make(map[string]json.RawMessage)}
	what := "the body"
	if path != "" {
		what, o.path = path, path+"."
	}
	if kindOf(raw) != "an object" {
		d.fail("%s is %s; an object is expected", what, kindOf(raw))
		return
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, err := dec.Token() // {
	for err == nil && dec.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = dec.Token(); err != nil {
			break
		}
		err = dec.Decode(&value)
		key, _ := name.(string)
		if _, twice := o.members[key]; twice {
			d.fail("%s is given twice", clip(o.path+key))
		}
		o.members[key] = value
	}
	if err != nil { // the syntax was checked, so it is nested too deeply
		d.fail("%s is not valid JSON", what)
		return
	}
	read(o)
	if rest := slices.Sorted(maps.Keys(o.members)); len(rest) > 0 {
		d.fail("%q is not a known field", clip(o.path+rest[0]))
	}
}

// take removes and returns a member of the wanted kind. It returns nil if there is none, or one of another kind.
func (o *object) take(name, want string) json.RawMessage {
	raw, ok := o.members[name]
	if !ok {
		return nil
	}
	delete(o.members, name)
	if kind := kindOf(raw); kind != want {
		o.fail("%s is %s; %s is expected", o.path+name, kind, want)
		return nil
	}
	return raw
}

func (o *object) text(name string, to *string) {
	if raw := o.take(name, "a string"); raw != nil {
		_ = json.Unmarshal(raw, to) // a valid string
	}
}

func (o *object) boolean(name string, to *bool) {
	if raw := o.take(name, "true or false"); raw != nil {
		*to = raw[0] == 't'
	}
}

func (o *object) integer(name string, to *int64) {
	raw := o.take(name, "a number")
	if raw == nil {
		return
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		o.fail("%s is %s; out of range", o.path+name, clip(string(raw)))
	case err != nil:
		o.fail("%s is %s; a whole number is expected", o.path+name, clip(string(raw)))
	default:
		*to = n
	}
}

// seconds reads a whole number of seconds.
func (o *object) seconds(name string, to *time.Duration) {
	n := int64(*to / time.Second)
	o.integer(name, &n)
	if n < 0 || n > int64(math.MaxInt64/time.Second) {
		o.fail("%s is %d; out of range", o.path+name, n)
		return
	}
	*to = time.Duration(n) * time.Second
}

// count reads an integer into an int.
func (o *object) count(name string, to *int) {
	n := int64(*to)
	o.integer(name, &n)
	*to = int(n)
}

func (o *object) number(name string, to *float64) {
	raw := o.take(name, "a number")
	if raw == nil {
		return
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(n, 0) {
		o.fail("%s is %s; out of range", o.path+name, clip(string(raw)))
		return
	}
	*to = n
}

// rfc3339 is the form of a time. [time.Parse] also takes an hour of one digit, a comma before the fraction, and an
// offset of 24 hours or 60 minutes.
var rfc3339 = regexp.MustCompile(`T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func (o *object) time(name string, to *time.Time) {
	var given string
	if _, ok := o.members[name]; !ok {
		return
	}
	o.text(name, &given)
	if o.err != nil {
		return
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil || !rfc3339.MatchString(given) {
		o.fail("%s is %q; a time as in RFC 3339 is expected, such as 2030-01-02T15:04:05Z", o.path+name, clip(given))
		return
	}
	*to = at
}

func (o *object) object(name string, read func(*object)) {
	if raw := o.take(name, "an object"); raw != nil {
		o.readObject(o.path+name, raw, read)
	}
}

// array reads an array of objects.
func (o *object) array(name string, read func(*object)) {
	raw := o.take(name, "an array")
	if raw == nil {
		return
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		o.fail("%s is not valid JSON", o.path+name)
		return
	}
	for i, item := range items {
		o.readObject(fmt.Sprintf("%s%s[%d]", o.path, name, i), item, read)
	}
}

// kindOf names the kind of a valid JSON value by its first character.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}
