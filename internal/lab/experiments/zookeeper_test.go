package experiments

import "testing"

func TestHerds(t *testing.T) { prove(t, herds()) }
