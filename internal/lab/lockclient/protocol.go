package lockclient

import "encoding/json"

// request is a line to the child.
type request struct {
	ID   int64
	Do   string
	With json.RawMessage `json:",omitempty"`
}

// reply is a line from the child. The reply with number 0 says that the child is ready, or why
// it cannot be.
type reply struct {
	ID     int64
	Error  *Error          `json:",omitempty"`
	Result json.RawMessage `json:",omitempty"`
}

// The requests.
const (
	doAcquire   = "acquire"
	doRelease   = "release"
	doExtend    = "extend"
	doAbandon   = "abandon"
	doStatus    = "status"
	doAwaitLoss = "await-loss"
	doInspect   = "inspect"
	doRead      = "read"
	doWrite     = "write"
	doSell      = "sell"
	doPanic     = "panic"
	doNest      = "nest"
	doLoop      = "loop"
	doCancel    = "cancel"
)

// onLease is a request about one lease; TTL is for extend only.
type onLease struct {
	Lease Lease
	TTL   int64 `json:",omitempty"` // ns
}

// onKey is a request about a key.
type onKey struct {
	Lock string
	Key  string
}

// line encodes a message.
func line(message any) ([]byte, error) {
	data, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}
