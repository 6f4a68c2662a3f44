package reconcile

// bucket is what the equation needs of the state of one bucket in Redis. A number that Redis does not have is -1.
type bucket struct {
	epoch, seq, stock, pending, dead int64
	// arrived is what has arrived of the stock that orders gave back in the database.
	arrived int64
	// lent is what the bucket has given to other buckets less what it has got from them.
	lent int64
}

// buckets are all buckets of a voucher.
type buckets []bucket

func (all buckets) sum(of func(b bucket) int64) (n int64) {
	for _, b := range all {
		n += of(b)
	}
	return n
}

// there reports whether Redis has all buckets.
func (all buckets) there() bool {
	for _, b := range all {
		if b.stock < 0 {
			return false
		}
	}
	return true
}

// stock is what can be sold: the stock of the buckets and the stock in transit between them.
func (all buckets) stock() int64 {
	return all.sum(func(b bucket) int64 { return max(0, b.stock) + b.lent })
}

// transit is the stock that has left a bucket and not arrived in another one yet.
func (all buckets) transit() int64 { return all.sum(func(b bucket) int64 { return b.lent }) }

func (all buckets) pending() int64 { return all.sum(func(b bucket) int64 { return b.pending }) }

// own is the stock without what orders gave back.
func (all buckets) own() int64 {
	return all.stock() - all.sum(func(b bucket) int64 { return b.arrived })
}

func (all buckets) dead() int64 { return all.sum(func(b bucket) int64 { return b.dead }) }

// seq counts the decisions of all buckets.
func (all buckets) seq() int64 { return all.sum(func(b bucket) int64 { return max(0, b.seq) }) }

// epoch is the lowest of the buckets' epochs.
func (all buckets) epoch() int64 {
	lowest := all[0].epoch
	for _, b := range all {
		lowest = min(lowest, b.epoch)
	}
	return lowest
}

// latestEpoch is the highest of the buckets' epochs.
func (all buckets) latestEpoch() (highest int64) {
	for _, b := range all {
		highest = max(highest, b.epoch)
	}
	return highest
}

// at reports whether all buckets have an epoch.
func (all buckets) at(epoch int64) bool {
	for _, b := range all {
		if b.epoch != epoch {
			return false
		}
	}
	return true
}

// open reports whether all buckets are open under an epoch.
func (all buckets) open(epoch int64) bool { return all.at(epoch) && all.there() }
