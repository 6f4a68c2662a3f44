package pairing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/order"
)

// ErrUnpaired comes with [order.ErrUnavailable]: the database and Redis do not belong together, or it is not known.
var ErrUnpaired = errors.New("the database and Redis do not belong together")

// Record is what one store knows of the pair. The zero record is that of a store that was never paired.
type Record struct {
	Generation int64
	Mark       string
	// Next is the mark that replaces Mark in Redis; "" for none. Only the database has it.
	Next string
	// Partner is the name of the other store.
	Partner string
	// Clean says that the last instance stopped and left nothing in Redis that the database does not have. Only the
	// database has it.
	Clean bool
}

func (r Record) paired() bool { return r.Mark != "" }

// Database is the database's side.
type Database interface {
	Pair(ctx context.Context) (Record, error)
	// ProposeMark sets the next mark of a record that has none. It changes nothing if the record is another one by now.
	ProposeMark(ctx context.Context, of Record, next string) error
	// SettleMark makes the next mark the mark. It changes nothing if there is another one by now.
	SettleMark(ctx context.Context, next, partner string) error
	// TakePair replaces a record, and reports whether it was still that one.
	TakePair(ctx context.Context, from, to Record) (bool, error)
	// LeavePair notes that Redis has nothing that the database does not have. The next mark takes that back.
	LeavePair(ctx context.Context, of Record) error
}

// Redis is the side of Redis.
type Redis interface {
	Pair(ctx context.Context) (Record, error)
	// MovePair replaces a record, and reports whether it has the new one.
	MovePair(ctx context.Context, from, to Record) (bool, error)
}

// Config is what a [Pairing] needs. Everything is required.
type Config struct {
	Database Database
	Redis    Redis
	// DatabaseName and RedisName are where the stores are, without secrets.
	DatabaseName, RedisName string
	Log                     *slog.Logger
}

const (
	// lookEvery is the time between two looks, markEvery between two marks.
	lookEvery = 400 * time.Millisecond
	markEvery = 800 * time.Millisecond
	// callTimeout bounds a call to one store.
	callTimeout = time.Second
	// quiet is how long nothing has changed in two stores that do not fit, until nobody else uses them. quietOwn is that of
	// a process that was paired: any other one that is paired has changed the mark by then.
	quiet    = 5 * time.Second
	quietOwn = 2 * time.Second
	// maxAge is how old the last look may be: a process that was paused for longer looks before it accepts.
	maxAge = 4 * time.Second
)

// Pairing knows whether the stores of this process belong together. It is safe for use by several goroutines.
type Pairing struct {
	config Config
	now    atomic.Pointer[status]

	mu sync.Mutex // one look at a time
	// looked is when the latest look began.
	looked time.Time
	// last is the record with which the stores fitted last; marked is when its mark was seen first.
	last   Record
	marked time.Time
	// joined: the stores have fitted since the start of the process.
	joined bool
	// seen are the records that do not fit, since when they are the same.
	seen  [2]Record
	since time.Time
	// broken is since when they do not fit.
	broken time.Time
	// first is the mark with which they fitted at first, and firstSeen when, until the process has joined.
	first     string
	firstSeen time.Time
	// told is what was logged last.
	told string
}

// status is the outcome of a look.
type status struct {
	generation int64
	err        error // nil: paired
	at         time.Time
	// brief: a process that was paired waits until it is known whether others use one of the stores.
	brief bool
}

// New returns a pairing that has not looked at the stores yet, and is unpaired.
func New(c Config) *Pairing {
	p := &Pairing{config: c}
	p.now.Store(&status{err: unpaired("the stores were not looked at yet"), at: time.Now()})
	return p
}

func unpaired(why string) error {
	return fmt.Errorf("%w: %w: %s", order.ErrUnavailable, ErrUnpaired, why)
}

// Generation returns the generation of the pair, or why the stores do not belong together. A nil pairing has generation 0
// and no errors: that of stores which nobody else can reach.
func (p *Pairing) Generation() (int64, error) {
	if p == nil {
		return 0, nil
	}
	s := p.now.Load()
	if s.err == nil && time.Since(s.at) > maxAge {
		return s.generation, unpaired("the stores were not looked at lately")
	}
	return s.generation, s.err
}

// Check is the error of [Pairing.Generation].
func (p *Pairing) Check() error {
	_, err := p.Generation()
	return err
}

// Ready is the readiness check. It does not fail while a process that was paired finds out whether its Redis is empty or is
// another one: that takes a moment, and all instances would fail at once.
func (p *Pairing) Ready(context.Context) error {
	if err := p.Check(); err != nil && !p.now.Load().brief {
		return err
	}
	return nil
}

// Start looks at the stores until it is known whether they belong together, for some seconds at most.
func (p *Pairing) Start(ctx context.Context) {
	for began := time.Now(); p.Look(ctx) != nil && time.Since(began) < quietOwn+lookEvery && ctx.Err() == nil; {
		sleep(ctx, lookEvery/4)
	}
}

// Run looks at the stores until ctx ends.
func (p *Pairing) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = p.Look(ctx) // it is kept
		case <-ctx.Done():
			return
		}
	}
}

// Leave notes that the process stops, and that Redis has nothing that the database does not have.
func (p *Pairing) Leave(ctx context.Context) error {
	if p.Check() != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config.Database.LeavePair(ctx, p.last)
}

// Look looks at both stores once, changes the mark if that is due, and returns [ErrUnpaired] if they do not belong together.
func (p *Pairing) Look(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.look(ctx)
}

// Confirm looks at both stores, unless another goroutine has done so since the call began. It is
// called before a voucher is rebuilt: what was known before may be of another Redis. A nil pairing is confirmed.
func (p *Pairing) Confirm(ctx context.Context) error {
	if p == nil {
		return nil
	}
	asked := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looked.After(asked) {
		return p.Check()
	}
	return p.look(ctx)
}

func (p *Pairing) look(ctx context.Context) error {
	p.looked = time.Now()
	for again := 0; ; again++ {
		db, redis, err := p.read(ctx)
		switch {
		case err != nil:
			return p.unreachable(db, redis)
		case fit(db, redis):
			return p.fits(ctx, db, redis)
		case again < 2: // another process may have changed the mark between the two reads
			sleep(ctx, 20*time.Millisecond)
		default:
			return p.disagree(ctx, db, redis)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// read reads both stores. With an error the record of a store that did not answer is nil.
func (p *Pairing) read(ctx context.Context) (db, redis *Record, err error) {
	inTime, cancel := context.WithTimeout(ctx, callTimeout)
	one, dbErr := p.config.Database.Pair(inTime)
	cancel()
	inTime, cancel = context.WithTimeout(ctx, callTimeout)
	other, redisErr := p.config.Redis.Pair(inTime)
	cancel()
	if dbErr == nil {
		db = &one
	}
	if redisErr == nil {
		redis = &other
	}
	return db, redis, errors.Join(dbErr, redisErr)
}

// fit reports whether the stores have the same mark.
func fit(db, redis *Record) bool {
	return db.paired() && redis.paired() && db.Generation == redis.Generation && (redis.Mark == db.Mark || redis.Mark == db.Next)
}

// unreachable keeps the state while a store does not answer. Orders are accepted while the database is away: nobody who needs
// the database can take Redis over meanwhile without a new generation.
func (p *Pairing) unreachable(db, redis *Record) error {
	s := *p.now.Load()
	if s.err == nil && db == nil && redis != nil && redis.Generation != p.last.Generation {
		s.err = unpaired("Redis was paired with another database, or lost its data, while the database does not answer")
	}
	if redis != nil || db != nil && db.Generation == p.last.Generation {
		s.at = time.Now()
	}
	p.now.Store(&s)
	return s.err
}

// fits notes that the stores belong together, and changes the mark.
func (p *Pairing) fits(ctx context.Context, db, redis *Record) error {
	began := time.Now()
	if !p.joined && !p.mayJoin(db, began) {
		p.now.Store(&status{generation: db.Generation, err: unpaired("it is not known yet whether others change the mark"), at: began})
		return p.now.Load().err
	}
	if db.Mark != p.last.Mark || db.Generation != p.last.Generation {
		p.last, p.marked = *db, began
	}
	if !p.joined || db.Next != "" || began.Sub(p.marked) >= markEvery {
		if err := p.move(ctx, db, redis); err != nil && !p.joined {
			return p.store(db.Generation, err)
		}
	}
	p.joined, p.seen = true, [2]Record{}
	return p.store(db.Generation, nil)
}

// mayJoin reports whether a process that has just started may change the mark. A copy that is younger than the mark fits, too:
// so others have to change the mark of the process' own stores first, or there are none.
func (p *Pairing) mayJoin(db *Record, now time.Time) bool {
	if p.first == "" {
		p.first, p.firstSeen = db.Mark, now
	}
	return db.Clean || db.Mark != p.first || now.Sub(p.firstSeen) >= quietOwn
}

// store publishes a state, and logs it if it is new.
func (p *Pairing) store(generation int64, err error) error {
	p.now.Store(&status{generation: generation, err: err, at: time.Now()})
	told := "paired"
	if err != nil {
		told = err.Error()
	}
	switch {
	case told == p.told:
	case err != nil:
		p.config.Log.Error("orders by admission are refused", "error", err)
	case p.told != "":
		p.config.Log.Info("the database and Redis belong together", "generation", generation)
	}
	p.told = told
	return err
}

// move takes the steps to a new mark that are left.
func (p *Pairing) move(ctx context.Context, db, redis *Record) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	next := db.Next
	if next == "" {
		next = rand.Text()
		if err := p.config.Database.ProposeMark(ctx, *db, next); err != nil {
			return err
		}
		now, err := p.config.Database.Pair(ctx)
		if err != nil || now.Generation != db.Generation || now.Mark != db.Mark {
			return err // another process has changed it
		}
		next = now.Next
	}
	moved, err := p.config.Redis.MovePair(ctx, *redis, Record{Generation: db.Generation, Mark: next, Partner: p.config.DatabaseName})
	if err != nil || !moved {
		return err
	}
	return p.config.Database.SettleMark(ctx, next, p.config.RedisName)
}

// disagree decides about stores that do not fit.
func (p *Pairing) disagree(ctx context.Context, db, redis *Record) error {
	if !db.paired() && !redis.paired() {
		if err := p.take(ctx, db, redis, db.Generation); err != nil {
			return p.store(0, err)
		}
		return p.store(p.last.Generation, nil)
	}
	p.first = ""
	if p.seen == [2]Record{} {
		p.broken = time.Now()
	}
	if now := [2]Record{*db, *redis}; now != p.seen {
		p.seen, p.since = now, time.Now()
	}
	own := p.joined && db.Generation == p.last.Generation && redis.Generation <= p.last.Generation
	wait := quiet
	if own {
		wait = quietOwn
	}
	switch why := p.explain(db, redis); {
	case own && time.Since(p.since) < wait && time.Since(p.broken) < quiet:
		err := p.store(p.last.Generation, unpaired(why+": this instance waits until it is known whether others use one of them"))
		s := *p.now.Load()
		s.brief = true
		p.now.Store(&s)
		return err
	case time.Since(p.since) < wait:
		return p.store(p.last.Generation, unpaired(why+": other instances use one of them, or that is not known yet; give this instance the stores of the others, or stop them and run `api adopt`"))
	case !own && !p.known(db, redis):
		return p.store(p.last.Generation, unpaired(why+": give this instance the former one, or run `api adopt` to make these two a pair; what only the former one has is lost then"))
	}
	p.config.Log.Warn("the database and Redis are paired anew, and vouchers are rebuilt from the database", "why", p.explain(db, redis))
	if err := p.take(ctx, db, redis, max(db.Generation, redis.Generation)+1); err != nil {
		return p.store(p.last.Generation, err)
	}
	return p.store(p.last.Generation, nil)
}

// known reports whether both stores are those of the pair by their names, or Redis may be another one.
func (p *Pairing) known(db, redis *Record) bool {
	sameRedis := db.Partner == p.config.RedisName || db.Clean || !db.paired()
	sameDatabase := redis.Partner == p.config.DatabaseName || !redis.paired()
	return sameRedis && sameDatabase
}

// explain says which stores do not fit.
func (p *Pairing) explain(db, redis *Record) string {
	ours := fmt.Sprintf("the database %s and Redis %s", p.config.DatabaseName, p.config.RedisName)
	switch {
	case !redis.paired():
		return fmt.Sprintf("%s: the database belongs to the Redis %s, and this one is empty or was never used", ours, db.Partner)
	case !db.paired():
		return fmt.Sprintf("%s: Redis belongs to the database %s, and this one was never used", ours, redis.Partner)
	}
	return fmt.Sprintf("%s: the database belongs to the Redis %s in generation %d, and Redis to the database %s in generation %d; one of them is a copy or has older data",
		ours, db.Partner, db.Generation, redis.Partner, redis.Generation)
}

// take makes the two stores a pair under a generation.
func (p *Pairing) take(ctx context.Context, db, redis *Record, generation int64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	now := Record{Generation: generation, Mark: rand.Text(), Partner: p.config.RedisName}
	taken, err := p.config.Database.TakePair(ctx, *db, now)
	if err == nil && taken {
		p.last, p.marked = now, time.Now() // if Redis refuses it, a later look goes on from here
		inRedis := Record{Generation: generation, Mark: now.Mark, Partner: p.config.DatabaseName}
		taken, err = p.config.Redis.MovePair(ctx, *redis, inRedis)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", unpaired("they could not be paired"), err)
	case !taken:
		return unpaired("another instance was faster to pair them")
	}
	p.last, p.marked, p.joined, p.seen = now, time.Now(), true, [2]Record{}
	return nil
}

// Adopt makes the stores a pair, once nobody else uses one of them. It reports false if they were one already.
func (p *Pairing) Adopt(ctx context.Context) (bool, error) {
	for {
		p.mu.Lock()
		db, redis, err := p.read(ctx)
		switch {
		case err != nil:
		case fit(db, redis):
			p.mu.Unlock()
			return false, nil
		default:
			if now := [2]Record{*db, *redis}; now != p.seen {
				if !p.since.IsZero() && p.seen != [2]Record{} {
					err = fmt.Errorf("%w: %s: running instances use one of them: stop these first", ErrUnpaired, p.explain(db, redis))
				}
				p.seen, p.since = now, time.Now()
			}
			if err == nil && time.Since(p.since) >= quiet {
				err = p.take(ctx, db, redis, max(db.Generation, redis.Generation)+1)
				p.mu.Unlock()
				return err == nil, err
			}
		}
		p.mu.Unlock()
		if err != nil {
			return false, err
		}
		if sleep(ctx, lookEvery); ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
}
