package experiments

import "testing"

func TestQuorums(t *testing.T) { prove(t, quorums()) }
