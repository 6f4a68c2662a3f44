package experiments

import "testing"

func TestNetworks(t *testing.T) { prove(t, networks()) }
