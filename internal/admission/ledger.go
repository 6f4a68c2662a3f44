package admission

import (
	"context"
	_ "embed" // the scripts
	"sync"
	"time"

	"seckill/internal/admission/admkey"
)

var (
	//go:embed look.lua
	lookSource string
	//go:embed give.lua
	giveSource string
	//go:embed take.lua
	takeSource string
)

// state is how one bucket of a voucher stands in Redis.
type state struct {
	now, pending, epoch, seq, stock, back int64
	// to and from are its side of the ledger: how much it gave to each bucket, and how
	// much of what each gave has come here. nil where there is none.
	to, from map[int]int64
	// heard is when the answer was here, or that there is none.
	heard time.Time
	// err is why all of this is not known.
	err error
}

// open says whether orders are accepted.
func (s *state) open() bool { return s.epoch > 0 && s.epoch%2 == 0 && s.stock >= 0 }

// share is a bucket's part of what can be sold: its stock, and what it has given away
// less what came here. To move stock changes nobody's share, so the sum of the shares
// is right though the buckets are not looked at in the same moment; one bucket's alone
// may be below zero.
func (s *state) share() int64 {
	sum := s.stock
	for _, n := range s.to {
		sum += n
	}
	for _, n := range s.from {
		sum -= n
	}
	return sum
}

// states asks for all buckets at once. Each state has its own error: of a pipeline, a
// cluster's client has the error of a node that hangs or is gone for what all the others
// answered, too.
func (s *server) states(ctx context.Context, buckets []admkey.Keys) []state {
	all := make([]state, len(buckets))
	if len(buckets) == 1 {
		all[0] = s.state(ctx, buckets[0])
		return all
	}
	var asked sync.WaitGroup
	for i, keys := range buckets {
		asked.Go(func() { all[i] = s.state(ctx, keys) })
	}
	asked.Wait()
	return all
}

func (s *server) state(ctx context.Context, keys admkey.Keys) state {
	reply, err := s.run(ctx, s.look, []any{"", "", 2, keys.Meta, keys.Orders})
	st := state{err: err}
	if err == nil {
		st = parseState(reply)
	}
	st.heard = time.Now()
	return st
}

func parseState(reply []any) state {
	n := numbers(reply)
	if len(n) != 6 || len(reply) != 8 {
		return state{err: strange(reply)}
	}
	return state{
		now: n[0], pending: n[1], epoch: n[2], seq: n[3], stock: n[4], back: n[5],
		to: byBucket(reply[6]), from: byBucket(reply[7]),
	}
}

// byBucket reads a list of pairs.
func byBucket(reply any) map[int]int64 {
	list, _ := reply.([]any)
	n := numbers(list)
	if len(n) < 2 {
		return nil
	}
	amounts := make(map[int]int64, len(n)/2)
	for i := 0; i+1 < len(n); i += 2 {
		amounts[int(n[i])] = n[i+1]
	}
	return amounts
}

// entry is a bucket's answer about its side of the ledger.
type entry struct {
	verdict verdict
	// amount is what was taken in, or in all given away; seq the bucket's from now on.
	amount, seq int64
}

// give has a bucket give half of its stock to another one or, without more, only say
// what it has given. Where replicas are waited for, they have that then: if one of them is
// promoted, what was taken in is not on sale a second time.
func (s *server) give(ctx context.Context, keys admkey.Keys, epoch int64, to int, more bool) (entry, error) {
	amount := 0
	if more {
		amount = 1
	}
	return parseEntry(s.runAcknowledged(ctx, s.giving, []any{"", "", 1, keys.Meta, epoch, to, amount}))
}

// take has a bucket take in what another one has given to it, total in all.
func (s *server) take(ctx context.Context, keys admkey.Keys, epoch int64, from int, total int64) (entry, error) {
	return parseEntry(s.run(ctx, s.taking, []any{"", "", 1, keys.Meta, epoch, from, total}))
}

func parseEntry(reply []any, err error) (entry, error) {
	if err != nil {
		return entry{}, err
	}
	switch n := numbers(reply); {
	case len(n) == 1 && verdict(n[0]) == closed:
		return entry{verdict: closed}, nil
	case len(n) == 3 && verdict(n[0]) == decided:
		return entry{amount: n[1], seq: n[2]}, nil
	}
	return entry{}, strange(reply)
}

// part is what a bucket is opened with.
type part struct {
	epoch, seq, stock int64
	users             int64 // who were prepared
	sale              window
}

// begin opens a bucket, and says whether it did.
func (s *server) begin(ctx context.Context, keys admkey.Keys, p part) (bool, error) {
	n, err := s.number(ctx, s.open, []any{
		"", "", 3, keys.Meta, keys.Users, keys.Fresh(p.epoch),
		p.epoch, p.epoch - 1, p.seq, p.stock,
		// The script counts in ms: neither too early nor too late by a part of one.
		p.sale.from.Add(time.Millisecond - 1).UnixMilli(), p.sale.to.UnixMilli(), p.users,
	})
	return n == 1, err
}
