package fulfil

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// fakeAdmissionStore is a store of which only Persist and Reject work.
type fakeAdmissionStore struct {
	*fakeStreams
	unsupported
}

// unsupported is a store whose other methods nobody calls.
type unsupported struct{ contract.AdmissionStore }

func storeOf(m *fakeStreams) fakeAdmissionStore { return fakeAdmissionStore{fakeStreams: m} }

func (m *fakeStreams) Persist(_ context.Context, batch []contract.Accepted) ([]order.Status, error) {
	m.mu.Lock()
	m.offered = append(m.offered, len(batch))
	seen := map[int64]bool{}
	for _, a := range batch {
		seen[a.OrderID] = true
	}
	m.twice += len(batch) - len(seen)
	dbErr, refuse := m.dbErr, m.refuse
	m.mu.Unlock()
	if dbErr != nil {
		return nil, dbErr
	}
	for _, a := range batch {
		if refuse == nil {
			break
		}
		if err := refuse(a); err != nil { // or it panics
			return nil, err
		}
	}
	m.set(func() {
		for _, a := range batch {
			m.persisted[a.OrderID] = time.Now()
		}
	})
	return slices.Repeat([]order.Status{order.Confirmed}, len(batch)), nil
}

func (m *fakeStreams) Reject(context.Context, contract.Accepted) (order.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dbErr != nil {
		return "", m.dbErr
	}
	return order.Rejected, nil
}

// refuseFirst makes the database answer the first order with an error.
func (m *fakeStreams) refuseFirst(err error) {
	m.refuse = func(a contract.Accepted) error {
		if a.OrderID == 1 {
			return err
		}
		return nil
	}
}

// refuseFirstVoucher makes the database answer all orders of the first voucher with an error.
func (m *fakeStreams) refuseFirstVoucher(err error) {
	m.refuse = func(a contract.Accepted) error {
		if a.VoucherID == m.stream.voucher {
			return err
		}
		return nil
	}
}

// work runs a worker on m while script runs.
func (m *fakeStreams) work(t *testing.T, change func(*Config), script func()) {
	t.Helper()
	end := m.run(t.Context(), m, storeOf(m), change, m.stream)
	script()
	end()
}

// process returns a process that reads some streams from a reader.
func process(from streamReader, to contract.AdmissionStore, change func(*Config), streams ...*stream) *Fulfiller {
	c := Config{Store: to, Log: slog.New(slog.DiscardHandler), Name: "w"}
	if change != nil {
		change(&c)
	}
	f := newFulfiller(c.withDefaults(), from)
	for _, s := range streams {
		f.streams.all[s.id()] = s
	}
	f.streams.setWatched(streams)
	return f
}

// run starts a process with one worker. It ends when end is called.
func (m *fakeStreams) run(ctx context.Context, from streamReader, to contract.AdmissionStore, change func(*Config), streams ...*stream) (end func()) {
	f := process(from, to, change, streams...)
	m.fulfiller = f
	ctx, cancel := context.WithCancel(ctx)
	f.liveness.beat(ctx)
	endHeartbeat := f.liveness.start()
	var running sync.WaitGroup
	running.Go(func() { newWorker(f, 0).run(ctx, ctx) })
	return func() {
		cancel()
		running.Wait()
		endHeartbeat()
	}
}

// othersAfter sleeps for d and returns how many orders of the second stream are persisted.
func (m *fakeStreams) othersAfter(d time.Duration) (n int) {
	simulate.Sleep(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.persisted {
		if id > secondIDs {
			n++
		}
	}
	return n
}

// after sleeps for d and returns the number of persisted orders and the reasons of the rejected ones.
func (m *fakeStreams) after(d time.Duration) (persisted int, rejected map[int64]Reason) {
	simulate.Sleep(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.persisted), maps.Clone(m.rejected)
}

// wantAfter fails unless, after d, so many orders are persisted, and none is rejected.
func (m *fakeStreams) wantAfter(t *testing.T, d time.Duration, want int) {
	t.Helper()
	if persisted, rejected := m.after(d); persisted != want || len(rejected) != 0 {
		t.Errorf("%d persisted, want %d; rejected %v", persisted, want, rejected)
	}
}

func (m *fakeStreams) wantNoneRejected(t *testing.T, d time.Duration) {
	t.Helper()
	if _, rejected := m.after(d); len(rejected) != 0 {
		t.Errorf("rejected %v", rejected)
	}
}

// wantNoAttempts fails unless all attempts have ended.
func (m *fakeStreams) wantNoAttempts(t *testing.T) {
	t.Helper()
	for id, unfinished := range m.attempts {
		fail.Unequal(t, len(unfinished), 0, "unfinished attempts of entry %s", id)
	}
}

// flow accepts an order every so often, for d.
func (m *fakeStreams) flow(every, d time.Duration) {
	for began := time.Now(); time.Since(began) < d; simulate.Sleep(every) {
		m.set(m.accept)
	}
}
