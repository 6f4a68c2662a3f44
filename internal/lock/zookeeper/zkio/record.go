package zkio

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"seckill/internal/lock"
)

// Record is the content of a lock's node, as JSON that a human can read with zkCli.sh.
type Record struct {
	// ID is new for every acquisition. A node belongs to an acquisition exactly if it has its ID.
	ID    string     `json:"id"`
	Owner lock.Owner `json:"owner"`
	// UntilMS is when a fixed lease ends, in ms since 1970 by the holder's clock. It is 0 if the lock lasts as long as
	// the session. It is information only: no decision depends on it.
	UntilMS int64 `json:"until_ms,omitempty"`
}

// NewRecord makes the record of an acquisition. With ttl 0 its lease has no fixed end.
func NewRecord(id string, owner lock.Owner, ttl time.Duration) Record {
	r := Record{ID: id, Owner: owner}
	if ttl > 0 {
		r.UntilMS = time.Now().Add(ttl).UnixMilli()
	}
	return r
}

// Bytes returns the content of the node.
func (r Record) Bytes() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot happen: two strings and a number
	}
	return data
}

// ParseRecord reads a node's data. It returns [lock.ErrWrongKind] if it is not a record.
func ParseRecord(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil || r.ID == "" {
		return Record{}, fmt.Errorf("%w: a node with the data %.40q", lock.ErrWrongKind, data)
	}
	return r, nil
}

// TTL returns how long the lease still runs by this process's clock, [lock.NoExpiry] if it lasts as long as the
// session.
func (r Record) TTL() time.Duration {
	if r.UntilMS == 0 {
		return lock.NoExpiry
	}
	return max(0, time.Until(time.UnixMilli(r.UntilMS)))
}

// Taken returns the error of a caller that is refused key because r's owner holds it.
func (r Record) Taken(key string) error {
	e := &lock.NotAcquiredError{Key: key, Holder: r.Owner}
	if r.UntilMS != 0 {
		e.TTL = r.TTL()
	}
	return e
}

// Name returns the node name for a key. It has no slash, is never "." or "..", contains neither '!' nor '*', and
// [url.PathUnescape] reverses it.
func Name(key string) string { return strings.ReplaceAll(url.PathEscape(key), ".", "%2E") }
