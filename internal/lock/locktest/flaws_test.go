package locktest

import (
	"errors"
	"testing"
)

// Every behaviour holds for the lock in memory and breaks for the same lock with a flaw.
func TestFlawsAreCaught(t *testing.T) {
	flaws := map[Behaviour][]string{
		TokenStaysOnReentry:          {"re-entry changes the token"},
		TokensOutliveLock:            {"the token counter is deleted with the lock"},
		ServesInOrderAcrossProcesses: {"the last waiter is served first"},
		EvictsDeadWaiters:            {"a waiter that gave up stays in the queue"},
		QueueSurvivesPause:           {"a pause reverses the queue"},
		ExtendsLease:                 {"extending adds up", "extending changes nothing", "extending revives a lost lease"},
		SaysWhoHolds:                 {"the hold count stays at one", "waiters are not counted", "a free key has an owner"},
		CanBeForced:                  {"a forced release frees nothing", "a forced release always reports success", "a forced release wakes nobody"},
		AsyncDelivers:                {"the context is ignored"},
		LinearizableMutex:            {"every twentieth caller gets the lock"},
		LinearizableReentrant:        {"every twentieth caller gets the lock", "one release frees all holds"},
		LinearizableFenced:           {"a token is given twice", "re-entry changes the token", "the token counter is deleted with the lock"},
		FollowsModel:                 {"one release frees all holds", "extending revives a lost lease", "the hold count stays at one"},
		EnduresManyPairs:             {"after a hundred grants the first lease is lost"},
		ThousandCancelledWaiters:     {"a goroutine for each waiter", "a connection for each waiter"},
		ReadersShare:                 {"readers exclude each other", "a reader's release ends all leases"},
		WritersExclude:               {"a writer may join readers"},
		ReleaseAdmitsAllReaders:      {"readers are admitted one by one"},
		ReaderLeasesAreApart:         {"readers share one lease", "a reader's release ends all leases", "a release lengthens other leases"},
		DeadReaderBlocksOneLease:     {"readers share one lease"},
		UpgradeIsRefused:             {"an upgrade waits", "a writer may join readers"},
		DowngradeWorks:               {"no downgrade"},
		WriterGetsInAmongReaders:     {"readers overtake the queue"},
	}
	for name, flaws := range flaws {
		t.Run("sound/"+string(name), func(t *testing.T) {
			t.Parallel()
			if err := Holds().verify(observe(t, name, func(t *testing.T) Subject { return memorySubject(t, "") })); err != nil {
				t.Errorf("a sound lock: %v", err)
			}
		})
		for _, flaw := range flaws {
			t.Run(flaw+"/"+string(name), func(t *testing.T) {
				t.Parallel()
				err := observe(t, name, func(t *testing.T) Subject { return memorySubject(t, flaw) })
				if _, ok := errors.AsType[*violationError](err); !ok {
					t.Errorf("the trial gave %v, want a violation", err)
				}
				t.Log(err)
			})
		}
	}
}
