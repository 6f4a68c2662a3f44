package harness

import (
	"time"
)

const (
	// reopenLimit is how long a planned failover may keep any bucket of a voucher shut.
	ReopenLimit = 3 * time.Second
	// busyReopenLimit is the same on a machine that other tests keep busy. What it must find took 28 s and longer.
	BusyReopenLimit = 20 * time.Second
)
