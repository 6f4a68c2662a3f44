package experiments

import "testing"

func TestReentry(t *testing.T) { prove(t, reentry()) }
