package experiments

import "testing"

func TestReleases(t *testing.T) { prove(t, releases()) }
