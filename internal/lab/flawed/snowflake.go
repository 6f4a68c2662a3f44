package flawed

import (
	"context"
	"time"
)

// Snowflake is [OwnClock]: an id is 41 bits of milliseconds, 10 bits of a machine and 12 bits of a sequence, which begins
// anew in each millisecond.
type Snowflake struct {
	machine   int64
	now       func() time.Time
	last, seq int64
}

// NewSnowflake returns a generator with a machine id that its operator has chosen, and a clock.
func NewSnowflake(machine int64, now func() time.Time) *Snowflake {
	return &Snowflake{machine: machine, now: now, last: -1}
}

// NextID mints an id. It does not look whether the clock has gone back.
func (s *Snowflake) NextID(context.Context) (int64, error) {
	ms := s.now().UnixMilli() - time.Date(2022, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	if ms == s.last {
		s.seq = (s.seq + 1) & (1<<12 - 1)
	} else {
		s.seq = 0
	}
	s.last = ms
	return ms<<22 | s.machine<<12 | s.seq, nil
}
