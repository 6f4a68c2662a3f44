package experiments

import "testing"

func TestPauses(t *testing.T) { prove(t, pauses()) }
