package locktest

// Behaviour names something that a lock may or may not do.
type Behaviour string

// The behaviours. What each asks for stands in the table below.
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

	ExtendsLease  Behaviour = "extends-lease"
	SaysWhoHolds  Behaviour = "says-who-holds"
	CanBeForced   Behaviour = "can-be-forced"
	AsyncDelivers Behaviour = "async-delivers"

	LinearizableMutex        Behaviour = "linearizable-mutex"
	LinearizableReentrant    Behaviour = "linearizable-reentrant"
	LinearizableFenced       Behaviour = "linearizable-fenced"
	FollowsModel             Behaviour = "follows-model"
	EnduresManyPairs         Behaviour = "endures-many-pairs"
	ThousandCancelledWaiters Behaviour = "thousand-cancelled-waiters"
)

// The behaviours of a read-write lock, see [RunShared].
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

// Behaviours lists all that [Run] asks about, in the order of a lock's life.
func Behaviours() []Behaviour { return names(behaviours()) }

// SharedBehaviours lists all that [RunShared] asks about.
func SharedBehaviours() []Behaviour { return names(sharedBehaviours()) }

func names(table []behaviour) []Behaviour {
	var names []Behaviour
	for _, b := range table {
		names = append(names, b.name)
	}
	return names
}

// heavy says that a trial keeps the machine busy. Such a trial is held by itself,
// ahead of the others, so that they find the time they measure.
func (b Behaviour) heavy() bool {
	switch b {
	case LinearizableMutex, LinearizableReentrant, LinearizableFenced, FollowsModel, EnduresManyPairs, ThousandCancelledWaiters:
		return true
	}
	return false
}

type behaviour struct {
	name  Behaviour
	says  string
	check func(*trial)
}

// behaviours is the suite.
func behaviours() []behaviour {
	return []behaviour{
		{ExcludesGoroutines, "of many goroutines one gets the key, and all in turn", excludesGoroutines},
		{ExcludesProcesses, "of many processes one gets the key, and all in turn", excludesProcesses},
		{KeepsKeysApart, "the holder of one key is nothing to another key", keepsKeysApart},
		{ServesInOrder, "who comes later does not get in before who waits", servesInOrder},
		{ServesInOrderAcrossProcesses, "eight waiters in as many processes are served in order, also when a holder dies", servesInOrderAcrossProcesses},
		{EvictsDeadWaiters, "a waiter that gives up or dies, wherever it stands, does not stall the others", evictsDeadWaiters},
		{QueueSurvivesPause, "a server that stands still for a moment changes nothing about the order", queueSurvivesPause},

		{OwnerFromContext, "the holder is the owner in the context, else a new one each time", ownerFromContext},
		{NamesHolder, "who does not get the key learns who holds it", namesHolder},
		{Reenters, "an owner that holds the key gets it again, from any process, and gives it back as often", reenters},
		{ReentryKeepsLease, "re-entry and partial release leave the lease as it was given", reentryKeepsLease},
		{TokensGrow, "every holder has a greater fencing token than the one before", tokensGrow},
		{TokenStaysOnReentry, "re-entry, from any process, keeps the holder's fencing token", tokenStaysOnReentry},
		{TokensOutliveLock, "the next token is greater also after an expiry, a death and a deletion", tokensOutliveLock},

		{TriesOnce, "without a wait limit an acquisition tries once and says whose fault it is", triesOnce},
		{WaitsAsLongAsAsked, "a wait ends at its limit, whatever the lease", waitsAsLongAsAsked},
		{ReleaseLetsWaiterIn, "a waiter gets in after a release, with its whole lease before it", releaseLetsWaiterIn},
		{WakesByMessage, "a waiter asks nothing while it waits, and a release wakes it", wakesByMessage},
		{ExpiryLetsWaiterIn, "a lease that runs out lets a waiter in within 20 ms", expiryLetsWaiterIn},
		{TellsCancelledFromTaken, "a wait that its context ends gives the context's error", tellsCancelledFromTaken},
		{CancelLeavesNothing, "a context that ends as the server grants leaves nothing held", cancelLeavesNothing},
		{CancelledWaitersAreGone, "a hundred cancelled waiters leave nothing and nobody unwoken", cancelledWaitersAreGone},
		{SurvivesLostGrantReply, "a grant whose reply was lost is recognised or given back", survivesLostGrantReply},
		{FailedGrantIsGivenBack, "what fails between grant and reply gives the grant back", failedGrantIsGivenBack},
		{AbandonedGrantStays, "a holder that dies between grant and reply leaves its lock taken", abandonedGrantStays},

		{KeepsGivenLease, "the lease in the store is the one that was asked for", keepsGivenLease},
		{LeaseRunsOut, "a fixed lease ends although its holder lives", leaseRunsOut},
		{SurvivesLongHold, "work that takes longer than a lease stays alone when no lease was given", survivesLongHold},
		{FreedAfterDeath, "a dead holder's lock is free after one lease", freedAfterDeath},
		{RenewalIsRetried, "a renewal that failed is tried again while time is left", renewalIsRetried},
		{RenewalEndsWithRelease, "a renewal never outlives its release, and the next holder has its own", renewalEndsWithRelease},
		{ToldWhenDeleted, "the holder is told when the lock was deleted", toldWhenDeleted},
		{ToldWhenStolen, "the holder is told when the lock went to somebody else", toldWhenStolen},
		{ToldWhenExpired, "the holder is told when its fixed lease ran out", toldWhenExpired},
		{ToldBeforeOthersGetIn, "a holder cut off from its server is told before anybody else gets in", toldBeforeOthersGetIn},

		{ReleasesOnce, "a second release is ErrNotHeld and leaves the next holder alone", releasesOnce},
		{ReleasesOnlyOwn, "a release that comes too late leaves the next holder alone", releasesOnlyOwn},
		{ReleasesAtomically, "a lease that runs out in the middle of a release costs the next holder nothing", releasesAtomically},
		{TellsExpiredFromLost, "a late release says whether the lock is free or somebody else's", tellsExpiredFromLost},
		{LeavesNothing, "when all is released the store is empty", leavesNothing},
		{EndsContextOnRelease, "a lease's context ends with ErrReleased, and Lost stays open", endsContextOnRelease},
		{SurvivesLostReleaseReply, "a release whose reply was lost, and that the client repeats, is no error", survivesLostReleaseReply},
		{ReleasesAgainAfterOutage, "a release that found no server can be made again", releasesAgainAfterOutage},

		{UnavailableIsQuick, "without a server an acquisition is ErrUnavailable, at once", unavailableIsQuick},
		{RefusesInvalid, "keys and options that make no sense are refused", refusesInvalid},
		{RefusesWrongKind, "a key that holds something else is refused by name", refusesWrongKind},

		{ExtendsLease, "a fixed lease that is extended runs the new length from then on", extendsLease},
		{SaysWhoHolds, "the mechanism can be asked who holds a key, how often, how long, and who waits", saysWhoHolds},
		{CanBeForced, "an operator can take a lock away, and the next one gets in at once", canBeForced},
		{AsyncDelivers, "an acquisition in the background delivers, or leaves nothing when cancelled", asyncDelivers},

		{LinearizableMutex, "its history is that of a mutex", linearizableMutex},
		{LinearizableReentrant, "its history is that of a reentrant mutex", linearizableReentrant},
		{LinearizableFenced, "the history of its guarded writes is that of a fenced mutex", linearizableFenced},
		{FollowsModel, "whatever is done to it in whatever order, it does what a small model does", followsModel},
		{EnduresManyPairs, "ten thousand acquisitions and releases cost nobody else a lock", enduresManyPairs},
		{ThousandCancelledWaiters, "a thousand cancelled waiters leave no trace and shared one connection", thousandCancelledWaiters},
	}
}

// sharedBehaviours is the suite of read-write locks.
func sharedBehaviours() []behaviour {
	return []behaviour{
		{ReadersShare, "readers of many processes hold the key together", readersShare},
		{WritersExclude, "a writer is alone", writersExclude},
		{ReleaseAdmitsAllReaders, "a writer's release lets every waiting reader in at once", releaseAdmitsAllReaders},
		{ReaderLeasesAreApart, "a reader's lease neither shortens nor lengthens another's", readerLeasesAreApart},
		{DeadReaderBlocksOneLease, "a dead reader keeps writers out for one lease and no longer", deadReaderBlocksOneLease},
		{UpgradeIsRefused, "a reader that asks to write is refused at once, whatever its wait limit", upgradeIsRefused},
		{DowngradeWorks, "a writer may read, and goes on reading when it has stopped writing", downgradeWorks},
		{WriterGetsInAmongReaders, "readers that overlap endlessly do not keep a writer out", writerGetsInAmongReaders},
	}
}
