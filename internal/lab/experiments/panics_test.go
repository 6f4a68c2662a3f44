package experiments

import "testing"

func TestPanics(t *testing.T) { prove(t, panics()) }
