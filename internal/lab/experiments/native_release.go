package experiments

import (
	"time"

	"seckill/internal/lab"
)

// returnLease is the lease of both buyers: the second one has most of it left when the first one returns.
const returnLease = 2 * time.Second

func returningLate(mechanism string) lab.Setup {
	return lab.Setup{Policy: policyFor(mechanism, returnLease, 2*returnLease)}
}

// lateHolderReturns makes a holder release after its lease has ended and somebody else has the lock, on a Valkey, which can
// compare and delete.
func lateHolderReturns(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	e.addServer("Valkey", t.OwnValkey())
	first, other := e.start("process-1"), e.start("process-2")
	late := e.firstAcquires(first)
	next, err := other.Acquire(e.Context(), e.request(secondBuyer)) // waits for the end of the lease
	e.Must(err)
	e.release(first, late.Lease)
	e.Sleep(overlapTime)
	e.release(other, next.Lease)
	e.Judge(e.evidence())
}
