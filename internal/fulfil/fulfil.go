package fulfil

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// Fulfiller writes accepted orders into the database while [Fulfiller.Run] runs. It is
// safe for use by several goroutines.
type Fulfiller struct {
	config   Config
	reader   streamReader
	notifier *notifier
	health   dbHealth
	// incarnation tells this process from one of the same name before it.
	incarnation string
	// heartbeatSince is since when the heartbeat key has been there without a break, for all that is known; nil if it
	// may not be there.
	heartbeatSince atomic.Pointer[time.Time]
	// retrying is the number of entries in the retry queues of all workers.
	retrying atomic.Int64

	// watched are the streams to read. The slice is replaced as a whole, under mu.
	mu      sync.Mutex
	watched atomic.Pointer[[]*stream]
	// watchedIDs are the ids of the watched streams, under mu.
	watchedIDs map[streamID]bool
	// complete: a full discovery has succeeded, so every stream that has entries is watched.
	complete atomic.Bool
	// listed: the vouchers of earlier times were read from the database, and those of unwatched are the ones whose streams
	// could not be looked at yet.
	listed    atomic.Bool
	unwatched atomic.Pointer[[]order.AdmissionVoucher]
	// pending is the latest count of pending entries; nil before the first one.
	pending atomic.Pointer[pendingEntries]
}

// New returns an error if the configuration is not valid. It does not connect to Redis yet.
func New(c Config) (*Fulfiller, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	streams := newRedisStreams(c.Client)
	if c.WaitReplicas == 0 {
		return newFulfiller(c, streams), nil
	}
	options := ledger.Options{WaitReplicas: c.WaitReplicas, WaitTimeout: nodeTimeout / 2}
	return newFulfiller(c, &replicatedStreams{streams, ledger.New(c.Client, options), streams.cluster == nil}), nil
}

func newFulfiller(c Config, r streamReader) *Fulfiller {
	f := &Fulfiller{config: c, reader: r, notifier: newNotifier(c.Client), incarnation: randomName(), watchedIDs: map[streamID]bool{}}
	f.watched.Store(&[]*stream{})
	return f
}

// Run works until ctx ends. Then it reads no more entries, finishes the batches in
// progress, acknowledges them, leaves the consumer group and returns.
func (f *Fulfiller) Run(ctx context.Context) {
	// Batches in progress outlive ctx, by FinishTimeout at most.
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	unhook := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(f.config.FinishTimeout, giveUp)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	defer unhook()

	// The notifier runs until the last batch is finished.
	listening, stopListening := context.WithCancel(context.WithoutCancel(ctx))
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stopListening()
	listener.Go(func() { f.notifier.listen(listening) })

	f.heartbeat(ctx) // before any entry is delivered to a worker
	f.discover(ctx, true)
	defer f.startHeartbeat()()
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { f.discoverPeriodically(ctx) })
	for n := range f.config.Workers {
		w := newWorker(f, n)
		workers.Go(func() { w.run(ctx, work) })
	}
}

// Watch reads a voucher's streams from now on. Without it, reading begins when the next
// discovery finds the voucher in the database. A stream that Redis does not have yet is
// skipped.
func (f *Fulfiller) Watch(ctx context.Context, v order.AdmissionVoucher) error {
	var failed error
	for _, s := range streamsOf(f.config.Prefix, v) { // a stream that fails does not affect the others
		failed = cmp.Or(failed, f.watchStream(ctx, s))
	}
	return failed
}

// Watched lists the vouchers whose streams are read, or will be when their nodes answer: those that may have accepted
// orders which are not in the database yet. It reports false while the vouchers of earlier times have not been looked
// through since the start.
func (f *Fulfiller) Watched() (vouchers []order.AdmissionVoucher, complete bool) {
	complete = f.listed.Load()
	buckets := map[int64]int{}
	if unwatched := f.unwatched.Load(); unwatched != nil {
		for _, v := range *unwatched {
			buckets[v.VoucherID] = v.Buckets
		}
	}
	for _, s := range *f.watched.Load() {
		buckets[s.voucher] = max(buckets[s.voucher], s.bucket+1)
	}
	for id, n := range buckets {
		vouchers = append(vouchers, order.AdmissionVoucher{VoucherID: id, Buckets: n})
	}
	return vouchers, complete
}

func (f *Fulfiller) watchStream(ctx context.Context, s *stream) error {
	if f.isWatched(s) {
		return nil
	}
	switch err := f.reader.ensureGroup(ctx, s); {
	case errors.Is(err, errNoVoucher):
		return nil
	case err != nil:
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.watchedIDs[s.id()] {
		f.watchedIDs[s.id()] = true
		f.setWatched(append(slices.Clone(*f.watched.Load()), s))
	}
	return nil
}

func (f *Fulfiller) setWatched(all []*stream) { f.watched.Store(&all) }

func (f *Fulfiller) isWatched(s *stream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watchedIDs[s.id()]
}

func (f *Fulfiller) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		f.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: "+what, slog.Any("error", err))
	}
}
