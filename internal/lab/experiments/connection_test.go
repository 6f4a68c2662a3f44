package experiments

import "testing"

func TestConnections(t *testing.T) { prove(t, connections()) }
