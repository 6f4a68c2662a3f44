package experiments

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// timeline collects what is drawn of a scenario without locks. It begins with its first moment. Its lanes appear in
// the order in which they were given; those without anything are left out.
type timeline struct {
	mu     sync.Mutex
	origin time.Time
	lanes  []finding.Lane
}

func newTimeline(lanes ...finding.Lane) *timeline { return &timeline{lanes: lanes} }

func actor(name string) finding.Lane { return finding.Lane{Name: name, Role: finding.Actor} }

// The lanes of the stores and of the provider.
const (
	laneRedis    = "Redis"
	laneMariaDB  = "MariaDB"
	laneProvider = "provider"
)

func redisLane() finding.Lane   { return finding.Lane{Name: laneRedis, Role: finding.LockStore} }
func mariaDBLane() finding.Lane { return finding.Lane{Name: laneMariaDB, Role: finding.Database} }

// elapsed is the time on the axis. The mutex is held.
func (l *timeline) elapsed() float64 {
	if l.origin.IsZero() {
		l.origin = time.Now()
	}
	return millis(time.Since(l.origin))
}

// mark adds a moment, now, to a lane. wrong says that it should not be.
func (l *timeline) mark(lane string, kind finding.MarkKind, label i18n.Text, wrong bool) (at float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at = l.elapsed()
	one := l.lane(lane)
	one.Marks = append(one.Marks, finding.Mark{Kind: kind, At: at, Label: label, Wrong: wrong})
	return at
}

// away draws that an actor is not there, from a moment until now.
func (l *timeline) away(lane string, from float64, label i18n.Text) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.lane(lane)
	one.Spans = append(one.Spans, finding.Span{Kind: finding.Down, From: from, To: l.elapsed(), Who: lane, Label: label})
}

// lane is one of the lanes that newTimeline was given. The mutex is held.
func (l *timeline) lane(name string) *finding.Lane {
	i := slices.IndexFunc(l.lanes, func(one finding.Lane) bool { return one.Name == name })
	return &l.lanes[i]
}

// witness draws the proof of an anomaly, or how it was prevented: then kind is "".
func (l *timeline) witness(kind finding.Kind, summary i18n.Text) finding.Witness {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := finding.Witness{Kind: kind, Summary: summary}
	for _, one := range l.lanes {
		if len(one.Marks)+len(one.Spans) == 0 {
			continue
		}
		one.Marks = slices.SortedStableFunc(slices.Values(one.Marks), func(a, b finding.Mark) int { return cmp.Compare(a.At, b.At) })
		w.Lanes = append(w.Lanes, one)
	}
	return w
}

// moment is a time of a timeline in a sentence.
func moment(ms float64) i18n.Text { return i18n.F("%.0f ms", ms) }
