package fulfil

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
)

// Fulfiller writes accepted orders into the database while [Fulfiller.Run] runs. It is safe for use by several goroutines.
type Fulfiller struct {
	config    *Config
	reader    streamReader
	streams   *watchList
	discovery *discovery
	liveness  *liveness
	health    *dbHealth
	notifier  *notifier
	// retrying is the number of entries in the retry queues of all workers.
	retrying atomic.Int64
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
	f := &Fulfiller{config: &c, reader: r, streams: newWatchList(c.Prefix, r), health: &dbHealth{config: &c}, notifier: newNotifier(c.Client)}
	f.discovery = &discovery{config: &c, reader: r, streams: f.streams}
	f.liveness = &liveness{config: &c, reader: r, streams: f.streams, incarnation: randomName()}
	return f
}

// Run works until ctx ends. Then it reads no more entries, finishes the batches in progress, acknowledges them, leaves
// the consumer group and returns.
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

	f.liveness.beat(ctx) // before any entry is delivered to a worker
	f.discovery.discover(ctx, true)
	defer f.liveness.start()()
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { f.discovery.run(ctx) })
	workers.Go(func() { f.streams.watchWoken(ctx, f.config.warn) })
	for n := range f.config.Workers {
		w := newWorker(f, n)
		workers.Go(func() { w.run(ctx, work) })
	}
}

// Wake has the workers read a stream, because the gate is about to add an entry to it. It does not wait for anything.
func (f *Fulfiller) Wake(voucherID int64, bucket int) { f.streams.wake(streamID{voucherID, bucket}) }

// Watch reads a voucher's streams from now on. Without it, reading begins when the gate wakes a stream, or when the
// next discovery finds that it has entries. A stream that Redis does not have yet is skipped.
func (f *Fulfiller) Watch(ctx context.Context, v contract.AdmissionVoucher) error {
	var failed error
	for bucket := range v.Buckets { // a stream that fails does not affect the others
		failed = cmp.Or(failed, f.streams.watchStream(ctx, f.streams.stream(streamID{v.VoucherID, bucket})))
	}
	return failed
}

// Watched lists the vouchers that may have accepted orders which are not in the database yet. It reports false while
// the vouchers of earlier times have not been looked through since the start.
func (f *Fulfiller) Watched() (vouchers []contract.AdmissionVoucher, complete bool) {
	complete = f.discovery.listed.Load()
	buckets := map[int64]int{}
	for _, s := range f.streams.known() {
		buckets[s.voucher] = max(buckets[s.voucher], s.bucket+1)
	}
	for id, n := range buckets {
		vouchers = append(vouchers, contract.AdmissionVoucher{VoucherID: id, Buckets: n})
	}
	return vouchers, complete
}

// Backlog returns how many accepted orders are not in the database yet.
func (f *Fulfiller) Backlog(ctx context.Context) (n int64, err error) {
	lengths, _, err := f.reader.backlog(ctx, f.streams.known())
	if _, complete := f.Watched(); err == nil && !complete {
		err = errors.New("fulfil: not all streams are known yet")
	}
	return sum(lengths), err
}

// Check returns an error while accepted orders wait because the database does not answer or refuses every order. It
// does not query the database: a failure while no order is being written is noticed with the next order.
func (f *Fulfiller) Check(context.Context) error { return f.health.check() }
