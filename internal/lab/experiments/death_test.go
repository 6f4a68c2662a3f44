package experiments

import "testing"

func TestDeaths(t *testing.T) { prove(t, deaths()) }
