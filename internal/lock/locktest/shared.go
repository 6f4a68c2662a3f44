package locktest

import (
	"errors"
	"sync/atomic"
	"time"

	"seckill/internal/lock"
)

// readWriter starts another process of a read-write lock.
func (t *trial) readWriter() (reader, writer lock.Locker) {
	if t.Shared != nil {
		p := t.Shared(t.tb, nil)
		return p.Reader(), p.Writer()
	}
	p, ok := t.process().(ReadWriter)
	t.require(ok, "readers and writers")
	return p.Reader(), p.Writer()
}

func readersShare(t *trial) {
	const n = 6
	readers := make([]lock.Locker, n)
	for i := range readers {
		readers[i], _ = t.readWriter()
	}
	leases := make([]lock.Lease, n)
	errs := make([]error, n)
	startTogether(n, func(i int) { leases[i], errs[i] = t.acquire(t.ctx, readers[i], lock.Options{TTL: t.long}) })
	if err := errors.Join(errs...); err != nil {
		t.violated("of %d readers that tried at once some did not get the lock: %v", n, err)
	}
	_, writer := t.readWriter()
	for _, l := range leases {
		t.mustBeTaken(writer, "while there was a reader")
		t.mustRelease(l)
	}
	t.mustBeFree(writer, "after the last reader")
	t.mustBeEmpty("after the last reader and a writer")
}

func writersExclude(t *trial) {
	reader, writer := t.readWriter()
	otherReader, otherWriter := t.readWriter()
	held := t.mustAcquire(writer, lock.Options{TTL: t.long})
	t.mustBeTaken(otherWriter, "while there was a writer")
	t.mustBeTaken(otherReader, "while there was a writer")
	t.mustBeTaken(reader, "while there was a writer in the same process")
	t.mustRelease(held)
	held = t.mustAcquire(reader, lock.Options{TTL: t.long})
	t.mustBeTaken(otherWriter, "for writing while there was a reader")
	t.mustBeTaken(writer, "for writing while there was a reader in the same process")
	t.mustRelease(held)

	var inside, writing, met atomic.Int32
	startTogether(16, func(i int) {
		mine, alone := writer, i%4 == 0
		switch {
		case alone && i%8 == 0:
			mine = otherWriter
		case !alone && i%2 == 0:
			mine = reader
		case !alone:
			mine = otherReader
		}
		lease, err := t.acquire(t.ctx, mine, lock.Options{TTL: t.long, Wait: t.limit})
		if err != nil {
			met.Add(1)
			return
		}
		if alone && writing.Add(1) > 1 || inside.Add(1) > 1 && writing.Load() > 0 {
			met.Add(1)
		}
		time.Sleep(time.Millisecond) // the work: long enough for another caller to enter
		inside.Add(-1)
		if alone {
			writing.Add(-1)
		}
		if lease.Release(t.ctx) != nil {
			met.Add(1)
		}
	})
	if n := met.Load(); n > 0 {
		t.violated("%d of sixteen readers and writers met one that they exclude, or failed to acquire or release", n)
	}
	t.mustBeEmpty("after readers and writers")
}

// releaseAdmitsAllReaders has every reader keep the lock until the last reader has it. If the lock let them in one
// after the other, they would wait for each other.
func releaseAdmitsAllReaders(t *trial) {
	const n = 6
	_, writer := t.readWriter()
	held := t.mustAcquire(writer, lock.Options{TTL: t.long})
	waits := make([]<-chan outcome, n)
	for i := range waits {
		reader, _ := t.readWriter()
		waits[i] = t.acquireAsync(t.ctx, reader, lock.Options{TTL: t.long, Wait: t.prompt})
	}
	t.sleep(100 * time.Millisecond) // until they wait
	released := time.Now()
	t.mustRelease(held)
	for i, w := range waits {
		got := <-w
		if got.err != nil {
			t.violated("reader %d of %d did not get the lock after a writer: %v", i, n, got.err)
		}
		if late := got.at.Sub(released); late > t.noticed() {
			t.violated("reader %d of %d got the lock %v after the writer's release", i, n, late)
		}
		defer func() { _ = got.lease.Release(t.ctx) }()
	}
}

// readerLeasesAreApart has a reader with a long lease and one with a short lease. While the long one reads, no writer
// gets the lock, whatever the short one does. After the long one has released, a writer waits for the short lease only.
func readerLeasesAreApart(t *trial) {
	long, _ := t.readWriter()
	short, writer := t.readWriter()
	lease := 4 * t.short

	one := t.mustAcquire(long, lock.Options{TTL: t.long})
	lock.Abandon(t.mustAcquire(short, lock.Options{TTL: t.short}))
	t.mustStayTaken(writer, 2*t.short, "after a short reader's lease had run out, while a long reader's had not")
	t.mustRelease(t.mustAcquire(short, lock.Options{TTL: t.short}))
	t.mustBeTaken(writer, "after a short reader's release, while a long one read")
	t.mustRelease(one)
	t.mustBeFree(writer, "after the last reader")

	// The long reader releases. Only the short one's lease remains.
	one = t.mustAcquire(long, lock.Options{TTL: t.long})
	began := time.Now()
	lock.Abandon(t.mustAcquire(short, lock.Options{TTL: lease}))
	t.mustRelease(one)
	t.mustAcquireAfterLease(writer, lease, "of a short reader, after a long one had released")
	if early := lease - time.Since(began); early > t.early() {
		t.violated("a long reader's release shortened a short reader's lease by %v", early)
	}

	// The release of one reader does not lengthen the other's lease either.
	began = time.Now()
	lock.Abandon(t.mustAcquire(long, lock.Options{TTL: lease}))
	t.mustRelease(t.mustAcquire(short, lock.Options{TTL: t.long}))
	t.mustAcquireAfterLease(writer, lease, "of a reader, after one with a longer lease had released")
	if early := lease - time.Since(began); early > t.early() {
		t.violated("another reader's release shortened a reader's lease by %v", early)
	}
}

func deadReaderBlocksOneLease(t *trial) {
	reader, writer := t.readWriter()
	living, _ := t.readWriter()
	lock.Abandon(t.mustAcquire(reader, lock.Options{TTL: t.short}))
	t.mustAcquireAfterLease(writer, t.short, "of a dead reader")
	if t.Renewed > 0 {
		lock.Abandon(t.mustAcquire(reader, lock.Options{}))
		t.mustAcquireAfterLease(writer, t.Renewed, "that a dead reader renewed")
	}
	lock.Abandon(t.mustAcquire(reader, lock.Options{TTL: t.short}))
	one := t.mustAcquire(living, lock.Options{TTL: t.long})
	t.mustStayTaken(writer, 2*t.short, "of a live reader, after another reader died")
	t.mustRelease(one)
	t.mustBeFree(writer, "after the live reader's release, long after the dead one's lease")
}

// upgradeIsRefused: two readers that wait for each other to stop reading would wait for ever.
func upgradeIsRefused(t *trial) {
	reader, writer := t.readWriter()
	otherReader, otherWriter := t.readWriter()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	mine := t.mustAcquireAs(ctx, reader, lock.Options{TTL: t.long})
	for _, others := range []bool{false, true} {
		var other lock.Lease
		if others {
			other = t.mustAcquire(otherReader, lock.Options{TTL: t.long})
		}
		for _, w := range []lock.Locker{writer, otherWriter} {
			for _, wait := range []time.Duration{0, t.prompt} {
				began := time.Now()
				lease, err := t.acquire(ctx, w, lock.Options{TTL: t.long, Wait: wait})
				if err == nil {
					_ = lease.Release(t.ctx)
					t.violated("a reader got the lock for writing, with other readers: %t", others)
				}
				if !errors.Is(err, lock.ErrNotAcquired) && !errors.Is(err, lock.ErrInvalid) {
					t.violated("a reader that asked to write got the error %v", err)
				}
				if took := time.Since(began); took > t.noticed() {
					t.violated("a reader that asked to write with a wait limit of %v was refused after %v", wait, took)
				}
			}
		}
		if others {
			t.mustRelease(other)
		}
	}
	again := t.mustAcquire(otherReader, lock.Options{TTL: t.long}) // no refused writer blocks readers
	t.mustRelease(again)
	t.mustRelease(mine)
	t.mustBeFree(otherWriter, "after the reader's release")
	t.mustBeEmpty("after refused upgrades")
}

func downgradeWorks(t *trial) {
	reader, writer := t.readWriter()
	otherReader, otherWriter := t.readWriter()
	ctx := lock.WithOwner(t.ctx, lock.NewOwners().New())
	writing := t.mustAcquireAs(ctx, writer, lock.Options{TTL: t.long})
	reading := t.mustAcquireAs(ctx, reader, lock.Options{TTL: t.long})
	t.mustBeTaken(otherReader, "while its holder both wrote and read")
	t.mustRelease(writing)
	t.mustBeTaken(otherWriter, "after a downgrade")
	shared := t.mustAcquire(otherReader, lock.Options{TTL: t.long, Wait: t.limit})
	t.mustBeTaken(otherWriter, "after a downgrade, with another reader")
	t.mustRelease(reading)
	t.mustRelease(shared)
	t.mustBeFree(otherWriter, "after both readers")
	t.mustBeEmpty("after a downgrade")
}

// writerGetsInAmongReaders has readers that each acquire their next lease before they release the last one. There is
// always a reader, unless the lock refuses one.
func writerGetsInAmongReaders(t *trial) {
	const bound, readers, reads = 3 * time.Second, 3, 20 * time.Millisecond
	_, writer := t.readWriter()
	stop := make(chan struct{})
	var inside atomic.Int32
	for range readers {
		reader, _ := t.readWriter()
		t.background.Go(func() {
			for !closed(stop) {
				lease, err := t.acquire(t.ctx, reader, lock.Options{TTL: t.long, Wait: 2 * bound})
				if err != nil {
					return
				}
				inside.Add(1)
				for !closed(stop) {
					time.Sleep(reads)
					next, err := t.acquire(t.ctx, reader, lock.Options{TTL: t.long})
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
	t.eventually("readers", func() bool { return inside.Load() == readers })
	lease, err := t.acquire(t.ctx, writer, lock.Options{TTL: t.long, Wait: bound})
	met := inside.Load() // a reader decrements the counter before it releases
	close(stop)
	if err == nil {
		_ = lease.Release(t.ctx)
	}
	t.background.Wait()
	if err != nil {
		t.violated("among readers that overlapped endlessly a writer did not get the lock within %v: %v", bound, err)
	}
	if met > 0 {
		t.violated("a writer got the lock while there were %d readers", met)
	}
}
