package experiments

import "testing"

func TestLeases(t *testing.T) { prove(t, leases()) }
