package locktest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

// pair starts a further process of a read-write lock.
func (t *trial) pair() (reader, writer lock.Locker) {
	if t.Shared != nil {
		p := t.Shared(t.tb, nil)
		return p.Reader(), p.Writer()
	}
	p, ok := t.process().(ReadWriter)
	t.need(ok, "readers and writers")
	return p.Reader(), p.Writer()
}

func readersShare(t *trial) {
	const n = 6
	readers := make([]lock.Locker, n)
	for i := range readers {
		readers[i], _ = t.pair()
	}
	leases := make([]lock.Lease, n)
	errs := make([]error, n)
	contend(n, func(i int) { leases[i], errs[i] = t.take(t.ctx, readers[i], lock.Options{TTL: longLease}) })
	if err := errors.Join(errs...); err != nil {
		t.violated("of %d readers that tried at once some did not get in: %v", n, err)
	}
	_, writer := t.pair()
	for _, l := range leases {
		t.mustBeTaken(writer, "while somebody read")
		t.release(l)
	}
	t.mustBeFree(writer, "after the last reader")
	t.mustBeEmpty("after the last reader and a writer")
}

func writersExclude(t *trial) {
	reader, writer := t.pair()
	otherReader, otherWriter := t.pair()
	held := t.hold(writer, lock.Options{TTL: longLease})
	t.mustBeTaken(otherWriter, "while somebody wrote")
	t.mustBeTaken(otherReader, "while somebody wrote")
	t.mustBeTaken(reader, "while somebody wrote in the same process")
	t.release(held)
	held = t.hold(reader, lock.Options{TTL: longLease})
	t.mustBeTaken(otherWriter, "to write, while somebody read")
	t.mustBeTaken(writer, "to write, while somebody read in the same process")
	t.release(held)

	var inside, writing, met atomic.Int32
	contend(16, func(i int) {
		mine, alone := writer, i%4 == 0
		switch {
		case alone && i%8 == 0:
			mine = otherWriter
		case !alone && i%2 == 0:
			mine = reader
		case !alone:
			mine = otherReader
		}
		lease, err := t.take(t.ctx, mine, lock.Options{TTL: longLease, Wait: trialLimit / 2})
		if err != nil {
			met.Add(1)
			return
		}
		if alone && writing.Add(1) > 1 || inside.Add(1) > 1 && writing.Load() > 0 {
			met.Add(1)
		}
		time.Sleep(time.Millisecond) // the work; long enough for another to walk in
		inside.Add(-1)
		if alone {
			writing.Add(-1)
		}
		if lease.Release(t.ctx) != nil {
			met.Add(1)
		}
	})
	if n := met.Load(); n > 0 {
		t.violated("%d of sixteen readers and writers met whom they must not, or did not get in and out", n)
	}
	t.mustBeEmpty("after readers and writers")
}

// releaseAdmitsAllReaders lets the readers stay until the last of them is in: were
// they let in one after the other, they would wait for each other.
func releaseAdmitsAllReaders(t *trial) {
	const n = 6
	_, writer := t.pair()
	held := t.hold(writer, lock.Options{TTL: longLease})
	waits := make([]<-chan outcome, n)
	for i := range waits {
		reader, _ := t.pair()
		waits[i] = t.start(t.ctx, reader, lock.Options{TTL: longLease, Wait: promptWait})
	}
	t.pass(100 * time.Millisecond) // until they wait
	released := time.Now()
	t.release(held)
	for i, w := range waits {
		got := <-w
		if got.err != nil {
			t.violated("reader %d of %d did not get in after a writer: %v", i, n, got.err)
		}
		if late := got.at.Sub(released); late > time.Second {
			t.violated("reader %d of %d got in %v after the writer's release", i, n, late)
		}
		defer func() { _ = got.lease.Release(t.ctx) }()
	}
}

// readerLeasesAreApart has a long reader and a short one. While the long one reads
// no writer gets in, whatever the short one does; when it has gone, none has to
// wait for what the short one once had.
func readerLeasesAreApart(t *trial) {
	long, _ := t.pair()
	short, writer := t.pair()
	const lease = 4 * shortLease

	one := t.hold(long, lock.Options{TTL: longLease})
	t.hold(short, lock.Options{TTL: shortLease}).Abandon()
	t.staysTaken(writer, 2*shortLease, "when a short reader's lease had run out and a long one's had not")
	t.release(t.hold(short, lock.Options{TTL: shortLease}))
	t.mustBeTaken(writer, "after a short reader's release, while a long one read")
	t.release(one)
	t.mustBeFree(writer, "after the last reader")

	// The long reader has gone; what is left is the short one's lease.
	one = t.hold(long, lock.Options{TTL: longLease})
	began := time.Now()
	t.hold(short, lock.Options{TTL: lease}).Abandon()
	t.release(one)
	t.getsIn(writer, lease, "of a short reader, after a long one had released")
	if early := lease - time.Since(began); early > 20*time.Millisecond {
		t.violated("a long reader's release cut a short reader's lease by %v", early)
	}

	// A short reader's end does not lengthen the long one's lease either.
	began = time.Now()
	t.hold(long, lock.Options{TTL: lease}).Abandon()
	t.release(t.hold(short, lock.Options{TTL: longLease}))
	t.getsIn(writer, lease, "of a reader, after one with a longer lease had released")
	if early := lease - time.Since(began); early > 20*time.Millisecond {
		t.violated("another reader's release cut a reader's lease by %v", early)
	}
}

func deadReaderBlocksOneLease(t *trial) {
	reader, writer := t.pair()
	living, _ := t.pair()
	t.hold(reader, lock.Options{TTL: shortLease}).Abandon()
	t.getsIn(writer, shortLease, "of a dead reader")
	if t.Renewed > 0 {
		t.hold(reader, lock.Options{}).Abandon()
		t.getsIn(writer, t.Renewed, "that a dead reader renewed")
	}
	t.hold(reader, lock.Options{TTL: shortLease}).Abandon()
	one := t.hold(living, lock.Options{TTL: longLease})
	t.staysTaken(writer, 2*shortLease, "of a reader that lives, although another one died")
	t.release(one)
	t.mustBeFree(writer, "after the living reader's release, the dead one being long over")
}

// upgradeIsRefused: two readers that each waited for the other to stop reading
// would wait for ever.
func upgradeIsRefused(t *trial) {
	reader, writer := t.pair()
	otherReader, otherWriter := t.pair()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	mine := t.holdAs(ctx, reader, lock.Options{TTL: longLease})
	for _, others := range []bool{false, true} {
		var other lock.Lease
		if others {
			other = t.hold(otherReader, lock.Options{TTL: longLease})
		}
		for _, w := range []lock.Locker{writer, otherWriter} {
			for _, wait := range []time.Duration{0, promptWait} {
				began := time.Now()
				lease, err := t.take(ctx, w, lock.Options{TTL: longLease, Wait: wait})
				if err == nil {
					_ = lease.Release(t.ctx)
					t.violated("a reader was let in to write, other readers: %t", others)
				}
				if !errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrInvalid) {
					t.violated("a reader that asked to write was told %v", err)
				}
				if took := time.Since(began); took > promptWait/2 {
					t.violated("a reader that asked to write, with a wait limit of %v, was refused after %v", wait, took)
				}
			}
		}
		if others {
			t.release(other)
		}
	}
	again := t.hold(otherReader, lock.Options{TTL: longLease}) // no writer is left in the way
	t.release(again)
	t.release(mine)
	t.mustBeFree(otherWriter, "after the reader's release")
	t.mustBeEmpty("after upgrades that were refused")
}

func downgradeWorks(t *trial) {
	reader, writer := t.pair()
	otherReader, otherWriter := t.pair()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	writing := t.holdAs(ctx, writer, lock.Options{TTL: longLease})
	reading := t.holdAs(ctx, reader, lock.Options{TTL: longLease})
	t.mustBeTaken(otherReader, "while its holder both wrote and read")
	t.release(writing)
	t.mustBeTaken(otherWriter, "after a downgrade")
	shared := t.hold(otherReader, lock.Options{TTL: longLease, Wait: anyWait})
	t.mustBeTaken(otherWriter, "after a downgrade, with another reader")
	t.release(reading)
	t.release(shared)
	t.mustBeFree(otherWriter, "after both readers")
	t.mustBeEmpty("after a downgrade")
}

// writerGetsInAmongReaders has readers who each take their next lease before they
// give back the last one, for as long as they are let in: there is no moment
// without a reader, unless the lock makes one.
func writerGetsInAmongReaders(t *trial) {
	const bound, readers, reads = 3 * time.Second, 3, 5 * time.Millisecond
	_, writer := t.pair()
	var all sync.WaitGroup
	stop := make(chan struct{})
	var inside atomic.Int32
	for range readers {
		reader, _ := t.pair()
		all.Go(func() {
			for !closed(stop) {
				lease, err := t.take(t.ctx, reader, lock.Options{TTL: longLease, Wait: 2 * bound})
				if err != nil {
					return
				}
				inside.Add(1)
				for !closed(stop) {
					time.Sleep(reads)
					next, err := t.take(t.ctx, reader, lock.Options{TTL: longLease})
					if err != nil {
						break
					}
					_ = lease.Release(t.ctx)
					lease = next
				}
				inside.Add(-1)
				_ = lease.Release(t.ctx)
			}
		})
	}
	t.until("readers to be inside", func() bool { return inside.Load() == readers })
	lease, err := t.take(t.ctx, writer, lock.Options{TTL: longLease, Wait: bound})
	met := inside.Load() // a reader counts itself out before it releases
	close(stop)
	if err == nil {
		_ = lease.Release(t.ctx)
	}
	all.Wait()
	if err != nil {
		t.violated("among readers that overlapped endlessly a writer did not get in within %v: %v", bound, err)
	}
	if met > 0 {
		t.violated("a writer got in while %d read", met)
	}
}
