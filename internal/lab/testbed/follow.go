package testbed

import (
	"fmt"
	"slices"

	"seckill/internal/lab/judge"
)

// followDelay is how far behind the present [Run.SoFar] is. An event is written a moment after
// its time, and files are read one after the other: without the delay a grant could be known
// before the release that it followed.
const followDelay = int64(100e6)

// Follow adds a source of evidence that can be asked while the experiment runs. The source must
// not fail the experiment: it adds what it knows.
func (r *Run) Follow(source func(*judge.Evidence)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sources = append(r.sources, source)
}

// SoFar is what is known of the experiment up to a tenth of a second ago: what its processes
// have recorded, what the observers have seen, and what was done to processes and servers. It
// may be called from any goroutine. What the database holds is not in it.
func (r *Run) SoFar() judge.Evidence {
	r.mu.Lock()
	sources, observers := slices.Clone(r.sources), slices.Clone(r.observers)
	r.mu.Unlock()
	ev := judge.Evidence{End: now() - followDelay, Database: "SQLite", Faults: r.Faults()}
	if r.RealServers() {
		ev.Database = "MariaDB"
	}
	for _, add := range sources {
		add(&ev)
	}
	for i, o := range observers {
		ev.Samples = append(ev.Samples, o.soFar(sameKey(observers, i))...)
	}
	return ev.Until(ev.End)
}

// sameKey names the server of an observer, which may be named already, or if several of those that
// are not sample one key: one of several servers says nothing about the lock.
func sameKey(observers []*Observer, i int) (server string) {
	if observers[i].server != "" {
		return observers[i].server
	}
	number, of := 1, 0
	for j, o := range observers {
		if o.server != "" || len(o.keys) == 0 || o.keys[0] != observers[i].keys[0] {
			continue
		}
		if of++; j < i {
			number++
		}
	}
	if of == 1 {
		return ""
	}
	return fmt.Sprintf("store %d", number)
}

// soFar returns the changes up to now, without waiting for another look.
func (o *Observer) soFar(server string) []judge.Sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	samples := slices.Clone(o.samples)
	for i := range samples {
		samples[i].Server = server
	}
	return samples
}

// addTo adds what the process has recorded, and its death.
func (i *Instance) addTo(ev *judge.Evidence) {
	if events, err := i.Events(); err == nil {
		ev.Events = append(ev.Events, events...)
	}
	ev.Deaths = append(ev.Deaths, i.deaths()...)
}
