package httpapi

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"seckill/internal/order"
)

// Bounds of query parameters.
const (
	defaultLimit = 20
	maxLimit     = 100
	maxWait      = 30 * time.Second
)

// The default start of a list.
const (
	oldest = 0
	newest = math.MaxInt64
)

// parseID parses an id as this API writes it: a positive 63-bit integer, in decimal, without sign or leading zeros.
func parseID(name, s string) (int64, error) {
	if s == "" {
		return 0, invalid("%s is missing", name)
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil || id <= 0 || s[0] == '0' || s[0] == '+' {
		return 0, invalid("%s is %q; an id is a positive decimal integer below 2^63", name, clip(s))
	}
	return id, nil
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }

// pathID returns the id in the address.
func (r *request) pathID() (int64, error) { return parseID("the id in the address", r.gin.Param("id")) }

// page is the part of a list that a client asks for.
type page struct {
	from  int64 // exclusive
	limit int
}

// queryPage reads ?limit= and the parameter with the start of the page.
func (r *request) queryPage(fromName string, start int64) (page, error) {
	p := page{from: start}
	query, err := r.query()
	if err != nil {
		return page{}, err
	}
	if query.Has(fromName) {
		from, err := parseID(fromName, query.Get(fromName))
		if err != nil {
			return page{}, err
		}
		p.from = from
	}
	p.limit, err = limitOf(query)
	return p, err
}

// limitOf reads ?limit=.
func limitOf(query url.Values) (int, error) {
	if !query.Has("limit") {
		return defaultLimit, nil
	}
	given := query.Get("limit")
	limit, err := strconv.Atoi(given)
	if err != nil || limit < 1 || limit > maxLimit {
		return 0, invalid("limit is %q; 1 to %d", clip(given), maxLimit)
	}
	return limit, nil
}

// oneOf reads a parameter that has one of some values; "" if it is not given.
func oneOf[T ~string](query url.Values, name string, allowed ...T) (T, error) {
	given := T(query.Get(name))
	if !query.Has(name) || slices.Contains(allowed, given) {
		return given, nil
	}
	return "", invalid("%s is %q; one of %q", name, clip(string(given)), allowed)
}

// queryWait reads ?wait=, a duration such as 2s or 500ms; 0 if it is not given.
func (r *request) queryWait() (time.Duration, error) {
	query, err := r.query()
	if err != nil || !query.Has("wait") {
		return 0, err
	}
	given := query.Get("wait")
	wait, err := time.ParseDuration(given)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, invalid("wait is %q; a duration from 0s to %v, such as 2s", clip(given), maxWait)
	}
	return wait, nil
}

// queryState reads ?state=, the state of an order that the client knows; "" if it is not given.
func (r *request) queryState() (order.Status, error) {
	query, err := r.query()
	if err != nil || !query.Has("state") {
		return "", err
	}
	given := order.Status(query.Get("state"))
	if !slices.Contains(order.Statuses(), given) {
		return "", invalid("state is %q; a state of an order, such as pending", clip(string(given)))
	}
	return given, nil
}

// headerOnce returns the value of a header that may be sent once; "" if it is not. The name is in canonical form.
func (r *request) headerOnce(name string) (string, error) {
	switch values := r.Header[name]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	default:
		return "", invalid("%s was sent %d times", name, len(values))
	}
}

// query parses the query of the URL. It does not skip an invalid part: a list would start again from its beginning.
func (r *request) query() (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query %q cannot be read", clip(r.URL.RawQuery))
	}
	return query, nil
}

// clip shortens a text from the client for use in an answer.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
