package fulfil

import (
	"testing"
)

// stories are what must be true of any Redis and any database. TestStories tells them in virtual time, and
// TestStoriesOnServers on a real Redis, in a cluster where that makes a difference, and on MariaDB.
var stories = map[string]struct {
	of   sale
	tell func(t *testing.T, s *env)
}{
	"accepted orders are persisted":      {sale{}, acceptedOrdersArePersisted},
	"processes share vouchers":           {sale{vouchers: 5}, processesShareVouchers},
	"vouchers come and go":               {sale{}, vouchersComeAndGo},
	"a broken stream":                    {sale{vouchers: 2}, brokenStream},
	"delivered twice":                    {sale{vouchers: 2}, deliveredTwice},
	"a dead consumer's entries":          {sale{}, deadConsumersEntries},
	"own entries first":                  {sale{stock: 100}, ownEntriesFirst},
	"a removed stream is not recreated":  {sale{}, removedStreamIsNotRecreated},
	"a suspicious entry is split":        {sale{stock: 100}, suspiciousEntryIsSplit},
	"a graceful stop":                    {sale{}, gracefulStop},
	"a waiter of another process":        {sale{vouchers: 2}, awaitElsewhere},
	"malformed entries":                  {sale{}, malformedEntries},
	"an epoch that is still to come":     {sale{}, epochStillToCome},
	"the database is an epoch behind":    {sale{}, databaseIsAnEpochBehind},
	"stores do not belong together":      {sale{}, storesDoNotBelongTogether},
	"more accepted than stock":           {sale{stock: 10}, moreAcceptedThanStock},
	"a second order of a user":           {sale{stock: 10}, secondOrderOfAUser},
	"the id of another order":            {sale{vouchers: 2, stock: 10}, idOfAnotherOrder},
	"a deadly entry":                     {sale{stock: 100}, deadlyEntry},
	"a rejection that comes too late":    {sale{stock: 100}, rejectionComesTooLate},
	"deliveries are counted":             {sale{}, deliveriesOfClaimedEntries},
	"buckets":                            {sale{buckets: 5, stock: 500}, splitVoucher},
	"buckets: each rejects its own":      {sale{buckets: 5, stock: 500}, splitVoucherRejects},
	"buckets: one broken, scripts lost":  {sale{buckets: 3, stock: 300}, acknowledgeInSeveralStreams},
	"buckets: one batch of all of them":  {sale{buckets: 8, stock: 1600}, batchOfManyStreams},
	"buckets: a dead consumer's entries": {sale{buckets: 5}, deadConsumersEntries},
}

func TestStories(t *testing.T) {
	t.Parallel()
	for name, story := range stories {
		t.Run(name, func(t *testing.T) { inBubble(t, story.of, story.tell) })
	}
}
