package locktest

// Behaviour names something that a lock may or may not do.
type Behaviour string

// The behaviours of a lock. The table below describes each of them.
const (
	ExcludesGoroutines           Behaviour = "excludes-goroutines"
	ExcludesProcesses            Behaviour = "excludes-processes"
	KeepsKeysApart               Behaviour = "keeps-keys-apart"
	ServesInOrder                Behaviour = "serves-in-order"
	ServesInOrderAcrossProcesses Behaviour = "serves-in-order-across-processes"
	EvictsDeadWaiters            Behaviour = "evicts-dead-waiters"
	QueueSurvivesPause           Behaviour = "queue-survives-pause"

	OwnerFromContext    Behaviour = "owner-from-context"
	NamesHolder         Behaviour = "names-holder"
	Reenters            Behaviour = "reenters"
	ReentryKeepsLease   Behaviour = "reentry-keeps-lease"
	InnerDoesNotShorten Behaviour = "inner-lease-does-not-shorten"
	TokensGrow          Behaviour = "tokens-grow"
	TokenStaysOnReentry Behaviour = "token-stays-on-reentry"
	TokensOutliveLock   Behaviour = "tokens-outlive-lock"

	TriesOnce               Behaviour = "tries-once"
	WaitsAsLongAsAsked      Behaviour = "waits-as-long-as-asked"
	ReleaseLetsWaiterIn     Behaviour = "release-lets-waiter-in"
	WakesByMessage          Behaviour = "wakes-by-message"
	ExpiryLetsWaiterIn      Behaviour = "expiry-lets-waiter-in"
	TellsCancelledFromTaken Behaviour = "tells-cancelled-from-taken"
	CancelLeavesNothing     Behaviour = "cancel-leaves-nothing"
	CancelledWaitersAreGone Behaviour = "cancelled-waiters-are-gone"
	SurvivesLostGrantReply  Behaviour = "survives-lost-grant-reply"
	FailedGrantIsGivenBack  Behaviour = "failed-grant-is-given-back"
	AbandonedGrantStays     Behaviour = "abandoned-grant-stays"

	KeepsGivenLease        Behaviour = "keeps-given-lease"
	LeaseRunsOut           Behaviour = "lease-runs-out"
	SurvivesLongHold       Behaviour = "survives-long-hold"
	FreedAfterDeath        Behaviour = "freed-after-death"
	RenewalIsRetried       Behaviour = "renewal-is-retried"
	RenewalEndsWithRelease Behaviour = "renewal-ends-with-release"
	RenewsOnlyOwn          Behaviour = "renews-only-own"
	ToldWhenDeleted        Behaviour = "told-when-deleted"
	ToldWhenStolen         Behaviour = "told-when-stolen"
	ToldWhenExpired        Behaviour = "told-when-expired"
	ToldBeforeOthersGetIn  Behaviour = "told-before-others-get-in"

	ReleasesOnce             Behaviour = "releases-once"
	ReleasesOnlyOwn          Behaviour = "releases-only-own"
	ReleasesAtomically       Behaviour = "releases-atomically"
	TellsExpiredFromLost     Behaviour = "tells-expired-from-lost"
	LeavesNothing            Behaviour = "leaves-nothing"
	EndsContextOnRelease     Behaviour = "ends-context-on-release"
	SurvivesLostReleaseReply Behaviour = "survives-lost-release-reply"
	ReleasesAgainAfterOutage Behaviour = "releases-again-after-outage"

	UnavailableIsQuick Behaviour = "unavailable-is-quick"
	RefusesInvalid     Behaviour = "refuses-invalid"
	RefusesWrongKind   Behaviour = "refuses-wrong-kind"

	ExtendsLease    Behaviour = "extends-lease"
	SaysWhoHolds    Behaviour = "says-who-holds"
	CanBeForced     Behaviour = "can-be-forced"
	OutlivesContext Behaviour = "outlives-context"

	LinearizableMutex        Behaviour = "linearizable-mutex"
	LinearizableReentrant    Behaviour = "linearizable-reentrant"
	LinearizableFenced       Behaviour = "linearizable-fenced"
	FollowsModel             Behaviour = "follows-model"
	EnduresManyPairs         Behaviour = "endures-many-pairs"
	ThousandCancelledWaiters Behaviour = "thousand-cancelled-waiters"
)

// The behaviours of a read-write lock.
const (
	ReadersShare             Behaviour = "readers-share"
	WritersExclude           Behaviour = "writers-exclude"
	ReleaseAdmitsAllReaders  Behaviour = "release-admits-all-readers"
	ReaderLeasesAreApart     Behaviour = "reader-leases-are-apart"
	DeadReaderBlocksOneLease Behaviour = "dead-reader-blocks-one-lease"
	UpgradeIsRefused         Behaviour = "upgrade-is-refused"
	DowngradeWorks           Behaviour = "downgrade-works"
	WriterGetsInAmongReaders Behaviour = "writer-gets-in-among-readers"
)

// Behaviours lists the behaviours of a lock, in the order in which a holder meets them.
func Behaviours() []Behaviour { return names(behaviours()) }

// SharedBehaviours lists what a read-write lock does beyond being a lock.
func SharedBehaviours() []Behaviour { return names(sharedBehaviours()) }

func names(table []behaviour) []Behaviour {
	var names []Behaviour
	for _, b := range table {
		names = append(names, b.name)
	}
	return names
}

// heavy reports whether a trial keeps the machine busy. Heavy trials on real servers run one by one before the others.
func (b Behaviour) heavy() bool {
	switch b {
	case LinearizableMutex, LinearizableReentrant, LinearizableFenced, FollowsModel, EnduresManyPairs,
		ThousandCancelledWaiters:
		return true
	}
	return false
}

// timeless reports whether a violation cannot come from a machine that was late: two holders at a time, or a result that no
// order of the operations explains.
func (b Behaviour) timeless() bool {
	switch b {
	case ExcludesGoroutines, ExcludesProcesses, KeepsKeysApart, ReleasesOnlyOwn, TokensGrow, WritersExclude,
		LinearizableMutex, LinearizableReentrant, LinearizableFenced, FollowsModel:
		return true
	}
	return false
}

const (
	timed   = true
	untimed = false
)

type behaviour struct {
	name        Behaviour
	description string
	check       func(*trial)
	// timed says that the check waits for the end of a lease, or that a machine which stalls could make it fail. On real
	// servers only [Soak] runs it.
	timed bool
}

// behaviours is the suite.
func behaviours() []behaviour {
	return []behaviour{
		{ExcludesGoroutines, "of many goroutines one gets the key, and then each of them in turn", excludesGoroutines, untimed},
		{ExcludesProcesses, "of many processes one gets the key, and then each of them in turn", excludesProcesses, untimed},
		{KeepsKeysApart, "holding one key does not block another key", keepsKeysApart, untimed},
		{ServesInOrder, "a later caller does not get the lock before an earlier waiter", servesInOrder, timed},
		{ServesInOrderAcrossProcesses, "eight waiters in eight processes are served in order, even if a holder dies",
			servesInOrderAcrossProcesses, timed},
		{EvictsDeadWaiters, "a waiter that gives up or dies does not delay the others, wherever it is in the queue",
			evictsDeadWaiters, timed},
		{QueueSurvivesPause, "a short pause of the server does not change the order of the queue", queueSurvivesPause, timed},

		{OwnerFromContext, "the owner is the one in the context, otherwise a new one for each acquisition", ownerFromContext, untimed},
		{NamesHolder, "a refused caller is told who holds the key", namesHolder, untimed},
		{Reenters, "an owner can acquire a key that it holds again, from any process, and releases it as often", reenters, untimed},
		{ReentryKeepsLease, "re-entry and partial release do not change the lease", reentryKeepsLease, timed},
		{InnerDoesNotShorten, "a short lease of a re-entry does not end the longer one around it", innerLeaseDoesNotShorten, timed},
		{TokensGrow, "every holder has a greater fencing token than the holder before it", tokensGrow, untimed},
		{TokenStaysOnReentry, "re-entry from any process keeps the fencing token", tokenStaysOnReentry, untimed},
		{TokensOutliveLock, "tokens keep growing after an expiry, a death and a deletion", tokensOutliveLock, timed},

		{TriesOnce, "without a wait limit an acquisition tries once and returns a NotAcquiredError", triesOnce, untimed},
		{WaitsAsLongAsAsked, "a wait ends at its limit, whatever the lease", waitsAsLongAsAsked, timed},
		{ReleaseLetsWaiterIn, "after a release a waiter gets the lock with its whole lease", releaseLetsWaiterIn, untimed},
		{WakesByMessage, "a waiter sends nothing while it waits, and a release wakes it", wakesByMessage, timed},
		{ExpiryLetsWaiterIn, "a waiter gets the lock within 20 ms after a lease has run out", expiryLetsWaiterIn, timed},
		{TellsCancelledFromTaken, "a wait that is cancelled returns the context's error", tellsCancelledFromTaken, untimed},
		{CancelLeavesNothing, "a context that ends while the server grants the lock leaves nothing held",
			cancelLeavesNothing, untimed},
		{CancelledWaitersAreGone, "a hundred cancelled waiters leave nothing behind and lose no wake-up",
			cancelledWaitersAreGone, untimed},
		{SurvivesLostGrantReply, "a grant whose reply was lost is recognised or given back", survivesLostGrantReply, untimed},
		{FailedGrantIsGivenBack, "a failure between grant and reply gives the lock back", failedGrantIsGivenBack, untimed},
		{AbandonedGrantStays, "the lock of a holder that dies between grant and reply stays taken", abandonedGrantStays, untimed},

		{KeepsGivenLease, "the lease in the store is the one that the caller asked for", keepsGivenLease, untimed},
		{LeaseRunsOut, "a fixed lease ends even if its holder lives", leaseRunsOut, timed},
		{SurvivesLongHold, "without a given lease, work that takes longer than a lease keeps the lock", survivesLongHold, timed},
		{FreedAfterDeath, "a dead holder's lock is free after one lease", freedAfterDeath, timed},
		{RenewalIsRetried, "a failed renewal is retried while time is left", renewalIsRetried, timed},
		{RenewalEndsWithRelease, "a renewal never outlives its release, and the next holder has its own",
			renewalEndsWithRelease, timed},
		{RenewsOnlyOwn, "a former holder does not renew the lock of the next one, which is free after that one's death",
			renewsOnlyOwn, timed},
		{ToldWhenDeleted, "the holder is told when the lock was deleted", toldWhenDeleted, timed},
		{ToldWhenStolen, "the holder is told when another owner has the lock", toldWhenStolen, timed},
		{ToldWhenExpired, "the holder is told when its fixed lease ran out", toldWhenExpired, timed},
		{ToldBeforeOthersGetIn, "a holder that is cut off from the server is told before another owner gets the lock",
			toldBeforeOthersGetIn, timed},

		{ReleasesOnce, "a second release is ErrNotHeld and does not affect the next holder", releasesOnce, untimed},
		{ReleasesOnlyOwn, "a late release does not affect the next holder", releasesOnlyOwn, untimed},
		{ReleasesAtomically, "a lease that runs out during a release does not affect the next holder", releasesAtomically, untimed},
		{TellsExpiredFromLost, "a late release tells whether the lock is free or held by another owner",
			tellsExpiredFromLost, untimed},
		{LeavesNothing, "after the last release the store is empty", leavesNothing, untimed},
		{EndsContextOnRelease, "a release ends the lease's context with ErrReleased and leaves Lost open",
			endsContextOnRelease, untimed},
		{SurvivesLostReleaseReply, "a release whose reply was lost and that the client repeats is no error",
			survivesLostReleaseReply, untimed},
		{ReleasesAgainAfterOutage, "a release that failed without a server can be repeated", releasesAgainAfterOutage, untimed},

		{UnavailableIsQuick, "without a server an acquisition returns ErrUnavailable at once", unavailableIsQuick, untimed},
		{RefusesInvalid, "invalid keys and options are refused", refusesInvalid, untimed},
		{RefusesWrongKind, "a key with a value of another kind is refused with ErrWrongKind", refusesWrongKind, untimed},

		{ExtendsLease, "an extended lease runs for the new length from then on", extendsLease, untimed},
		{SaysWhoHolds, "Inspect returns the holder, the hold count, the remaining lease and the waiters", saysWhoHolds, untimed},
		{CanBeForced, "ForceRelease takes a lock away, and the next waiter gets it at once", canBeForced, untimed},
		{OutlivesContext, "a lease stays when the context of its acquisition is cancelled", outlivesContext, untimed},

		{LinearizableMutex, "its history is that of a mutex", linearizableMutex, untimed},
		{LinearizableReentrant, "its history is that of a reentrant mutex", linearizableReentrant, untimed},
		{LinearizableFenced, "the history of its guarded writes is that of a fenced mutex", linearizableFenced, untimed},
		{FollowsModel, "any sequence of operations has the same results as in a small model", followsModel, untimed},
		{EnduresManyPairs, "ten thousand acquisitions and releases cost no other holder its lock", enduresManyPairs, timed},
		{ThousandCancelledWaiters, "a thousand cancelled waiters leave nothing behind and shared one connection",
			thousandCancelledWaiters, timed},
	}
}

// sharedBehaviours is the suite of read-write locks.
func sharedBehaviours() []behaviour {
	return []behaviour{
		{ReadersShare, "readers in many processes hold the key together", readersShare, untimed},
		{WritersExclude, "a writer excludes readers and other writers", writersExclude, untimed},
		{ReleaseAdmitsAllReaders, "a writer's release lets in all waiting readers at once", releaseAdmitsAllReaders, untimed},
		{ReaderLeasesAreApart, "a reader's lease neither shortens nor lengthens another reader's lease",
			readerLeasesAreApart, timed},
		{DeadReaderBlocksOneLease, "a dead reader blocks writers for one lease and no longer", deadReaderBlocksOneLease, timed},
		{UpgradeIsRefused, "a reader that asks to write is refused at once, whatever its wait limit", upgradeIsRefused, untimed},
		{DowngradeWorks, "a writer may also read, and goes on reading after it has stopped writing", downgradeWorks, untimed},
		{WriterGetsInAmongReaders, "readers that overlap endlessly do not starve a writer", writerGetsInAmongReaders, timed},
	}
}
