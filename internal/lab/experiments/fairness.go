package experiments

import (
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
)

// fairness are the experiments about the order in which waiters are served.
func fairness() []comparison {
	needs := []testbed.Server{testbed.Redis}
	waiting := func(mechanism string) lab.Setup {
		return lab.Setup{Policy: policyFor(mechanism, 20*time.Second, 20*time.Second)}
	}
	reading := func(mechanism string) lab.Setup { return lab.Setup{Policy: policyFor(mechanism, 0, 10*time.Second)} }
	return []comparison{
		{text: "fairness", scenario: waitersArrive, needs: needs, quiet: true, cases: []setupCase{
			{id: "unfair-order", setup: waiting("lua"), breaks: kinds{finding.Inversions, finding.Starved}},
			{id: "fair-order", setup: waiting("fair"), holds: kinds{finding.Inversions, finding.Starved, finding.Overlaps}},
		}, parameters: []lab.Parameter{
			locks("naive", "uuid", "lua", "fair"), buyers(waiterCount, 4, 30),
			work(i18n.F("how long each holds the lock"), holdTime, 10*time.Millisecond, 500*time.Millisecond),
		}},
		{text: "readers", scenario: readTogether, needs: needs, quiet: true, cases: []setupCase{
			{id: "readers-take-turns", setup: reading("reentrant"), breaks: kinds{finding.NeedlessWaits}},
			{id: "rw-readers-together", setup: reading("rw"), holds: kinds{finding.NeedlessWaits}},
		}, parameters: []lab.Parameter{buyers(readerCount, 2, 10)}},
		{text: "readers-and-writer", scenario: writerAmongReaders, needs: needs, quiet: true, cases: []setupCase{
			{id: "readers-writer-no-lock", setup: reading("none"), breaks: kinds{finding.Overlaps}},
			{id: "rw-writer-alone", setup: reading("rw"), holds: kinds{finding.Overlaps, finding.Starved}},
		}},
	}
}

// Ten waiters come one after the other, and each holds the lock for a while. The sale closes
// while some still wait.
const (
	waiterCount     = 10
	holdTime        = 60 * time.Millisecond
	arrivalInterval = 30 * time.Millisecond
	saleTime        = 420 * time.Millisecond // after the lock was released
)

// readerCount readers ask at once.
const readerCount = 4

// A reader reads until all of them do, or for readAloneLimit: a reader that is let in never
// has to wait for the others to leave.
const (
	readAloneLimit   = 500 * time.Millisecond
	readTogetherTime = 50 * time.Millisecond
)

// Readers come and go in two processes so that one of them always holds the lock. A writer
// comes after some rounds.
const (
	readersEach   = 3 // in each process
	readTime      = 80 * time.Millisecond
	restTime      = 10 * time.Millisecond
	readersBefore = 4 // in each process
	writeTime     = 200 * time.Millisecond
	readersLimit  = time.Minute // until they are told to stop
	// laterReaders is how many readers that asked after the writer may be let in before it:
	// one round of readers.
	laterReaders = 2 * readersEach
)
