package ledger

import (
	"context"
	_ "embed" // the script
	"sync"
	"time"
)

//go:embed state.lua
var stateSource string

// State is the state of one bucket of a voucher, read at one moment. A number that Redis does not have is -1.
type State struct {
	// Now is the server's clock, in ms.
	Now int64
	// Pending counts the accepted orders that are not persisted yet, Dead the dead letters.
	Pending, Dead int64
	// Epoch, Seq, Stock and Returned are the fields of the bucket's hash.
	Epoch, Seq, Stock, Returned int64
	// Begin and End are the sale's window, in ms of the server's clock.
	Begin, End int64
	// Paused says that the sale is paused.
	Paused bool
	// Arrived is the total of the stock that orders gave back in the database, as far as it has arrived.
	Arrived int64
	// Generation is that of the pair of database and Redis under which the bucket was closed or opened last.
	Generation int64
	// Torn: a script that changed the bucket stopped in its middle, see [FieldBusy]. The numbers above are wrong.
	Torn bool
	// To is the total that the bucket gave to each other bucket in this epoch, From the total that arrived from each.
	// They are nil where there was no transfer.
	To, From map[int]int64
	// Heard is when the answer arrived, or when it was known that there is none.
	Heard time.Time
	// Err says why the state is not known.
	Err error
}

// Open reports whether the bucket accepts orders.
func (s *State) Open() bool { return s.Epoch > 0 && s.Epoch%2 == 0 && s.Stock >= 0 && !s.Torn }

// Lent is what the bucket has given to other buckets less what it has received from them. A transfer changes a bucket's
// stock and Lent, and not their sum.
func (s *State) Lent() (n int64) {
	for _, given := range s.To {
		n += given
	}
	for _, taken := range s.From {
		n -= taken
	}
	return n
}

// Share is the bucket's part of what can be sold: its stock and what it has lent. A transfer changes no share, so the
// sum of the shares is right even though the buckets are not read at the same moment. The share of a single bucket can
// be negative.
func (s *State) Share() int64 { return s.Stock + s.Lent() }

// States returns the states of several buckets, read at the same time. Each state has its own error. A pipeline would
// not do: a cluster's client reports the error of one node for the commands of all.
func (l *Ledger) States(ctx context.Context, buckets []Keys) []State {
	all := make([]State, len(buckets))
	if len(buckets) == 1 {
		all[0] = l.State(ctx, buckets[0])
		return all
	}
	var reading sync.WaitGroup
	for i, keys := range buckets {
		reading.Go(func() { all[i] = l.State(ctx, keys) })
	}
	reading.Wait()
	return all
}

// State returns the state of a bucket.
func (l *Ledger) State(ctx context.Context, keys Keys) State {
	reply, err := l.read(ctx, l.scripts.state, []any{"", "", 3, keys.Meta, keys.Orders, keys.Dead})
	s := State{Err: err}
	if err == nil {
		s = parseState(reply)
	}
	s.Heard = time.Now()
	return s
}

func parseState(reply []any) State {
	n := numbers(reply)
	if len(n) != 13 || len(reply) != 15 {
		return State{Err: unexpected(reply)}
	}
	return State{
		Now: n[0], Pending: n[1], Dead: n[2], Epoch: n[3], Seq: n[4], Stock: n[5], Returned: n[6], Begin: n[7], End: n[8], Arrived: n[9], Torn: n[10] == 1,
		Generation: n[11], Paused: n[12] == 1, To: totals(reply[13]), From: totals(reply[14]),
	}
}

// totals reads a list of bucket, total, bucket, total ...
func totals(reply any) map[int]int64 {
	list, _ := reply.([]any)
	n := numbers(list)
	if len(n) < 2 {
		return nil
	}
	byBucket := make(map[int]int64, len(n)/2)
	for i := 0; i+1 < len(n); i += 2 {
		byBucket[int(n[i])] = n[i+1]
	}
	return byBucket
}
