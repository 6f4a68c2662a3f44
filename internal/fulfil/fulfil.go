package fulfil

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
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

	// all are the streams that may get entries: the database has listed their vouchers, or the gate has woken them. Those
	// that may have entries now are watched; the others rest. See rest.go. mu guards all of it.
	mu  sync.Mutex
	all map[streamID]*stream
	// ring has the same in the order in which those that rest are looked at, and next is whose turn it is.
	ring []*stream
	next int
	// watched are the streams to read. The slice is replaced as a whole, under mu; then changed is closed and replaced.
	watched atomic.Pointer[[]*stream]
	changed atomic.Pointer[chan struct{}]
	// toWatch are the resting streams that the gate has woken and whose groups may be missing.
	toWatch chan *stream
	// onSale are the vouchers that the database listed last, and nextList is when it is asked again. discovering guards
	// them, and is held by discover.
	discovering sync.Mutex
	onSale      map[int64]bool
	nextList    time.Time
	// complete: a full discovery has succeeded, so every stream that has entries is watched, or will be in its turn.
	complete atomic.Bool
	// listed: the vouchers of earlier times were read from the database.
	listed atomic.Bool
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
	streams.scripts = ledger.NewConsumers(c.generation)
	if c.WaitReplicas == 0 {
		return newFulfiller(c, streams), nil
	}
	options := ledger.Options{WaitReplicas: c.WaitReplicas, WaitTimeout: nodeTimeout / 2}
	return newFulfiller(c, &replicatedStreams{streams, ledger.New(c.Client, options), streams.cluster == nil}), nil
}

func newFulfiller(c Config, r streamReader) *Fulfiller {
	f := &Fulfiller{
		config: c, reader: r, notifier: newNotifier(c.Client), incarnation: randomName(),
		all: map[streamID]*stream{}, toWatch: make(chan *stream, maxToWatch),
	}
	f.setWatched(nil)
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
	workers.Go(func() { f.watchWoken(ctx) })
	for n := range f.config.Workers {
		w := newWorker(f, n)
		workers.Go(func() { w.run(ctx, work) })
	}
}

// Watch reads a voucher's streams from now on. Without it, reading begins when the gate wakes a stream, or when the
// next discovery finds that it has entries. A stream that Redis does not have yet is skipped.
func (f *Fulfiller) Watch(ctx context.Context, v contract.AdmissionVoucher) error {
	var failed error
	for bucket := range v.Buckets { // a stream that fails does not affect the others
		failed = cmp.Or(failed, f.watchStream(ctx, f.stream(streamID{v.VoucherID, bucket})))
	}
	return failed
}

// Watched lists the vouchers that may have accepted orders which are not in the database yet. It reports false while the
// vouchers of earlier times have not been looked through since the start.
func (f *Fulfiller) Watched() (vouchers []contract.AdmissionVoucher, complete bool) {
	complete = f.listed.Load()
	buckets := map[int64]int{}
	f.mu.Lock()
	for id := range f.all {
		buckets[id.voucher] = max(buckets[id.voucher], id.bucket+1)
	}
	f.mu.Unlock()
	for id, n := range buckets {
		vouchers = append(vouchers, contract.AdmissionVoucher{VoucherID: id, Buckets: n})
	}
	return vouchers, complete
}

// Backlog returns how many accepted orders are not in the database yet.
func (f *Fulfiller) Backlog(ctx context.Context) (n int64, err error) {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.all))
	f.mu.Unlock()
	lengths, _, err := f.reader.backlog(ctx, all)
	for _, one := range lengths {
		n += one
	}
	if _, complete := f.Watched(); err == nil && !complete {
		err = errors.New("fulfil: not all streams are known yet")
	}
	return n, err
}

func (f *Fulfiller) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		f.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: "+what, slog.Any("error", err))
	}
}
