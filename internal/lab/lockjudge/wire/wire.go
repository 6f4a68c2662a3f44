// Package wire is the protocol between the judge and a lock in another process, in any language: one JSON object per
// line, requests on the program's standard input, answers and notices on its standard output. What it writes to its
// standard error is shown if it fails.
//
//	{"id":1,"do":"open","redis":"redis://127.0.0.1:6379/3","watchdog_ms":900}
//	{"id":1,"watchdog_ms":900,"leaves_out":["told-when-deleted"]}
//	{"id":2,"do":"acquire","key":"seat","wait_ms":0,"ttl_ms":30000}
//	{"id":2,"lease":"a","owner":"7f3c","token":"33","left_ms":29999}
//	{"id":3,"do":"release","lease":"a"}
//	{"id":3,"error":"lost"}
//
// Requests are independent of each other: while one waits for a lock, others come and have to be answered. "cancel"
// names an acquisition in its field "of", whose caller has gone; it has no answer itself, and the acquisition is
// answered with "cancelled". The end of the input ends the program.
//
// {"lost":"a","error":"expired"} tells the holder of a lease that it has the lock no longer. A lock that tells nobody
// never sends it.
package wire

// Request is a line from the judge.
type Request struct {
	ID int64  `json:"id"`
	Do string `json:"do"` // open, acquire, release or cancel

	// Redis is the server of an open, and WatchdogMS the lease that the lock renews if it has a watchdog. The answer
	// says whether it has: it repeats the number.
	Redis      string `json:"redis,omitempty"`
	WatchdogMS int64  `json:"watchdog_ms,omitempty"`

	// Key, WaitMS and TTLMS are those of an acquire. A wait of 0 tries once. A TTL of 0 leaves the lease to the lock.
	// Owner is who acquires, if that is more than this one call: the same owner may acquire again while it holds the
	// lock.
	Key    string `json:"key,omitempty"`
	WaitMS int64  `json:"wait_ms"`
	TTLMS  int64  `json:"ttl_ms"`
	Owner  string `json:"owner,omitempty"`
	// GiveUpMS is after how long the caller of an acquire has gone; then comes a cancel, too. A driver that takes
	// deadlines and no cancellations has to know. 0: the caller stays.
	GiveUpMS int64 `json:"give_up_ms,omitempty"`

	Lease string `json:"lease,omitempty"` // of a release
	Of    int64  `json:"of,omitempty"`    // of a cancel: the acquisition
}

// Reply is a line of the program: the answer to a request, or with Lost a notice.
type Reply struct {
	ID    int64  `json:"id,omitempty"`
	Error string `json:"error,omitempty"` // one of the codes; anything else is a failure
	Text  string `json:"text,omitempty"`  // more about the error

	// WatchdogMS is of an open. So is LeavesOut: the behaviours that the lock does not promise, by their names in the
	// report; none: it is expected to have all but the comforts.
	WatchdogMS int64    `json:"watchdog_ms,omitempty"`
	LeavesOut  []string `json:"leaves_out,omitempty"`

	// Of an acquire: the name of the lease, the holder, the fencing token (a number in a string; none: no token) and
	// what is left of the lease (none: it has no end).
	Lease  string `json:"lease,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Token  string `json:"token,omitempty"`
	LeftMS *int64 `json:"left_ms,omitempty"`
	Holder string `json:"holder,omitempty"` // of a refusal: who has the lock

	Lost string `json:"lost,omitempty"` // of a notice: the lease
}

// The operations that a program is asked for.
const (
	Open    = "open"
	Acquire = "acquire"
	Release = "release"
	Cancel  = "cancel"
)

// The codes of errors.
const (
	NotAcquired = "not-acquired" // another owner has the lock
	NotHeld     = "not-held"     // the lease was released before
	Expired     = "expired"      // the lease is over, and nobody has the lock
	Lost        = "lost"         // the lease is over, and another owner has the lock
	Unavailable = "unavailable"  // the server could not be asked: the outcome is unknown
	Cancelled   = "cancelled"    // the caller has gone
	Invalid     = "invalid"      // the request makes no sense to the lock
)
