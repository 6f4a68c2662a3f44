package experiments

import "testing"

func TestFailovers(t *testing.T) { prove(t, failovers()) }
