package zkio

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"seckill/internal/lock"
)

// Record is what a lock's node holds: JSON, for a human with zkCli.sh to read too.
type Record struct {
	// ID is new with every acquisition: a node is an acquisition's own if and only
	// if it carries its ID.
	ID    string     `json:"id"`
	Owner lock.Owner `json:"owner"`
	// UntilMS is when a fixed lease ends, in ms since 1970 by the holder's clock; 0
	// where the lease is the session's. Nothing is decided by it: it is for others to
	// read.
	UntilMS int64 `json:"until_ms,omitempty"`
}

// NewRecord is the record of an acquisition under way; ttl 0 has no end.
func NewRecord(id string, owner lock.Owner, ttl time.Duration) Record {
	r := Record{ID: id, Owner: owner}
	if ttl > 0 {
		r.UntilMS = time.Now().Add(ttl).UnixMilli()
	}
	return r
}

// Bytes is what to put into the node.
func (r Record) Bytes() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(err) // two strings and a number
	}
	return data
}

// ParseRecord reads a node's data: [lock.ErrWrongKind] where it is not a lock's.
func ParseRecord(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil || r.ID == "" {
		return Record{}, fmt.Errorf("%w: a node with the data %.40q", lock.ErrWrongKind, data)
	}
	return r, nil
}

// TTL is how long the lease still runs by this process's clock: [lock.NoExpiry]
// where it is the session's.
func (r Record) TTL() time.Duration {
	if r.UntilMS == 0 {
		return lock.NoExpiry
	}
	return max(0, time.Until(time.UnixMilli(r.UntilMS)))
}

// Taken is the error of who does not get key because of r's owner.
func (r Record) Taken(key string) error {
	e := &lock.NotAcquiredError{Key: key, Holder: r.Owner}
	if r.UntilMS != 0 {
		e.TTL = r.TTL()
	}
	return e
}

// Name makes the name of a node of a key: without a slash, never "." or "..", and
// reversible by [Key]. It has no '!' and no '*'.
func Name(key string) string { return strings.ReplaceAll(url.PathEscape(key), ".", "%2E") }

// Key undoes [Name].
func Key(name string) (string, error) { return url.PathUnescape(name) }
