package locktest

import (
	"errors"
	"testing"
)

// Every behaviour holds for the lock in memory, and not for one with a flaw.
func TestFlawsAreCaught(t *testing.T) {
	flaws := map[Behaviour][]string{
		TokenStaysOnReentry:          {"re-entry changes the token"},
		TokensOutliveLock:            {"the counter goes with the lock"},
		ServesInOrderAcrossProcesses: {"the last one first"},
		EvictsDeadWaiters:            {"who gives up keeps its place"},
		QueueSurvivesPause:           {"a pause turns the queue round"},
		ExtendsLease:                 {"extending adds up", "extending is a word only", "extending brings it back"},
		SaysWhoHolds:                 {"the count stays at one", "who waits is not counted", "a free key has an owner"},
		CanBeForced:                  {"force frees nobody", "force does not say what it did", "force wakes nobody"},
		AsyncDelivers:                {"the context is not looked at"},
		LinearizableMutex:            {"every twentieth gets in"},
		LinearizableReentrant:        {"every twentieth gets in", "one release frees all"},
		LinearizableFenced:           {"a token is given twice", "re-entry changes the token", "the counter goes with the lock"},
		FollowsModel:                 {"one release frees all", "extending brings it back", "the count stays at one"},
		EnduresManyPairs:             {"a hundred pairs cost a lease"},
		ThousandCancelledWaiters:     {"a goroutine for each waiter", "a connection for each waiter"},
		ReadersShare:                 {"readers exclude each other", "a reader's end ends the lease"},
		WritersExclude:               {"a writer may join readers"},
		ReleaseAdmitsAllReaders:      {"readers are let in one by one"},
		ReaderLeasesAreApart:         {"readers share one lease", "a reader's end ends the lease", "a dead reader lives on"},
		DeadReaderBlocksOneLease:     {"readers share one lease"},
		UpgradeIsRefused:             {"an upgrade waits", "a writer may join readers"},
		DowngradeWorks:               {"no downgrade"},
		WriterGetsInAmongReaders:     {"readers pass the queue"},
	}
	for name, flaws := range flaws {
		t.Run("sound/"+string(name), func(t *testing.T) {
			t.Parallel()
			if err := Holds().judge(find(t, name).try(t, memorySubject(t, ""))); err != nil {
				t.Errorf("a sound lock: %v", err)
			}
		})
		for _, flaw := range flaws {
			t.Run(flaw+"/"+string(name), func(t *testing.T) {
				t.Parallel()
				err := find(t, name).try(t, memorySubject(t, flaw))
				if _, ok := errors.AsType[*violationError](err); !ok {
					t.Errorf("the trial gave %v, want a violation", err)
				}
				t.Log(err)
			})
		}
	}
}
