package experiments

import (
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/stage"
)

// fairness are the experiments about who gets in when.
func fairness() lab.Set {
	return slices.Concat(arrivals(), readersOnly(), readersAndWriter())
}

// Ten come one after the other, and each is inside for a while. The doors close when
// some are still waiting.
const (
	inLine       = 10
	servedFor    = 60 * time.Millisecond
	arrivalEvery = 30 * time.Millisecond
	openFor      = 420 * time.Millisecond // after the lock was given back
)

func arrivals() lab.Set {
	const group = "Who is next"
	return lab.Set{
		{
			ID: "unfair-order", Group: group, Title: "Whoever asks at the right moment is next",
			Sources: []lab.Source{
				{Document: "001", Section: "The fair lock"},
				{Document: "002", Section: "Problems of an ordinary Redis lock"},
			},
			Hypothesis: "Waiters that ask again and again are served in no order: some overtake those that came before them, and some of the early ones leave with nothing while later ones are served.",
			Arrangement: "The lock is held. Ten waiters of two processes arrive 30 ms apart, and then it is released. Each one that gets in stays for 60 ms; " +
				"420 ms after that the doors close, and those who still wait have to leave.",
			Why: "Nobody keeps a list. A free key belongs to whoever asks first after it became free, and with everybody asking about every 10 ms that is chance: who has waited the longest has " +
				"no better odds than who has just come. On average this costs nothing, and the lock is as busy as any. But the longest wait has no bound: under " +
				"steady demand somebody loses the draw until the doors close, though many were served that came later. A flash sale that promises " +
				"first come, first served cannot be sold like this. A queue in the store keeps the promise.",
			Seen:    "late comers are served before early ones, and some early ones never are",
			Cure:    "A lock with a queue in its store, that gives itself to the first in it: fair, zk-queue (fair-order).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Inversions, finding.Starved},
			Partner: "fair-order",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("lua", 20*time.Second, 20*time.Second)},
			Scene:   waitersInLine,
		},
		{
			ID: "fair-order", Group: group, Title: "Served in the order of arrival",
			Sources: []lab.Source{
				{Document: "001", Section: "The fair lock"},
			},
			Hypothesis:  "A lock with a queue in Redis serves waiters strictly in the order of their arrival, in whichever process they wait.",
			Arrangement: "The same ten waiters of two processes, and the same closing time.",
			Why: "Each waiter takes a ticket when it arrives, drawn in Redis by the script that refuses it, so that the order is that of one clock and not of ten. The first in the queue gets the lock and nobody else, not even " +
				"one who finds it free. A release hands it on. Who gives up leaves the place, wherever it is, and the others move up: nobody is served before one who came earlier and is still waiting. " +
				"What it costs is throughput: the lock goes to one particular waiter, and if that one is slow to come, or dead, all the others wait until its place has run out.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Inversions, finding.Starved, finding.Overlaps},
			Partner: "unfair-order",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("fair", 20*time.Second, 20*time.Second)},
			Scene:   waitersInLine,
		},
	}
}

// A reader reads until all of them do, or for readAlone: nobody who is let in has to
// wait for the others to go.
const (
	readAlone = 500 * time.Millisecond
	readOn    = 50 * time.Millisecond
)

func readersOnly() lab.Set {
	const group = "Readers"
	return lab.Set{
		{
			ID: "readers-take-turns", Group: group, Title: "Readers wait for each other",
			Sources: []lab.Source{
				{Document: "001", Section: "3. The best plan: a Redisson lock, for leases that nobody can guess"},
				{Document: "001", Section: "What a distributed lock has to fulfil"},
			},
			Hypothesis:  "Under an exclusive lock readers wait for one another, though none of them changes anything.",
			Arrangement: "Four readers of two processes ask for the lock at the same moment. Each reads until all four do, or for half a second.",
			Why: "The lock knows one kind of holder. Reading the same stock twice at a time harms nobody, but the lock cannot know that it is reading: it lets one in and has the others wait, and " +
				"four readers take four times as long as one. Where reading is most of the work, as on the page of a voucher that everybody looks at, the lock becomes the " +
				"narrowest place in the house, for nothing. A lock that is told what the holder is about to do can let readers in together and keep only writers apart.",
			Seen:    "readers stand in a queue behind readers",
			Cure:    "A read-write lock: readers share it (rw-readers-together). Or no lock for reading at all, where a value that is a moment old will do.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.NeedlessWaits},
			Partner: "rw-readers-together",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("reentrant", 0, 10*time.Second)},
			Scene:   readTogether,
		},
		{
			ID: "rw-readers-together", Group: group, Title: "Readers share the lock",
			Sources: []lab.Source{
				{Document: "001", Section: "3. The best plan: a Redisson lock, for leases that nobody can guess"},
			},
			Hypothesis:  "Under a read-write lock all readers are in at the same time, in whichever process they are.",
			Arrangement: "The same four readers of two processes.",
			Why: "The key in Redis holds a lease for every reader, each with its own end, and a script lets a reader in unless somebody writes or waits to write. Four readers then take as long " +
				"as one. It is not free: each reader is still two commands to Redis, and a write there, so the lock saves the waiting and not the asking. And it protects " +
				"against writers only if they take the same lock, on its other side: the readers keep them out for as long as one of them is left, which is the next question.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.NeedlessWaits},
			Partner: "readers-take-turns",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("rw", 0, 10*time.Second)},
			Scene:   readTogether,
		},
	}
}

// Readers come and go in two processes so that there is always one of them inside. A
// writer comes when some rounds are over.
const (
	readersEach   = 3 // in each process
	reads         = 80 * time.Millisecond
	rests         = 10 * time.Millisecond
	readersBefore = 4 // in each process
	writes        = 200 * time.Millisecond
	readersFor    = time.Minute // until they are told to stop
	// laterReaders is how many readers that asked after the writer may be let in
	// before it: one round of them.
	laterReaders = 2 * readersEach
)

func readersAndWriter() lab.Set {
	const group = "Readers and a writer"
	return lab.Set{
		{
			ID: "readers-writer-no-lock", Group: group, Title: "A writer among readers, and nothing keeps them apart",
			Sources: []lab.Source{
				{Document: "003", Section: "Getting started with distributed locks"},
				{Document: "001", Section: "What a distributed lock has to fulfil"},
			},
			Hypothesis:  "Without a lock the writer changes things while readers are looking at them.",
			Arrangement: "Six readers of two processes come and go, so that somebody is always reading. In the middle of it a writer comes, writes for 200 ms and goes.",
			Why: "The writer asks nobody and begins, and for the whole of its 200 ms readers are inside who began before it or come in beside it. What they see is neither the state before nor the state after: a " +
				"stock that is taken and an order that is not there yet. One statement of a database is whole by itself; what spans two statements, or two stores, is not. " +
				"An exclusive lock would mend it and make all readers wait for each other. A read-write lock keeps the writer alone and lets the readers share.",
			Seen:    "readers see half of what a writer does",
			Cure:    "A read-write lock (rw-writer-alone); or one transaction for what belongs together, where one database has it all.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "rw-writer-alone",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("none", 0, 10*time.Second)},
			Scene:   writerAmongReaders,
		},
		{
			ID: "rw-writer-alone", Group: group, Title: "The writer is alone, and is not starved",
			Sources: []lab.Source{
				{Document: "001", Section: "3. The best plan: a Redisson lock, for leases that nobody can guess"},
				{Document: "001", Section: "What a distributed lock has to fulfil"},
			},
			Hypothesis:  "Under a read-write lock the writer is alone while it writes, and gets in before a second round of readers although there is never a moment without one.",
			Arrangement: "The same six readers of two processes and the same writer, which waits for its turn.",
			Why: "If a reader got in whenever others read already, the writer would wait for a moment without readers, and in a steady stream there is none: it would starve. So a writer that " +
				"waits closes the door to new readers; those inside go on to their end, the longest of them is all that the writer waits for, and then it is alone. Its release lets in all readers " +
				"that have gathered meanwhile, before the next writer, so that they do not starve either. The two sides take turns, and nobody waits longer than a turn of the " +
				"other side.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Overlaps, finding.Starved},
			Partner: "readers-writer-no-lock",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   lab.Setup{Policy: asking("rw", 0, 10*time.Second)},
			Scene:   writerAmongReaders,
		},
	}
}
