package experiments

import "testing"

func TestFairness(t *testing.T) { prove(t, fairness()) }
