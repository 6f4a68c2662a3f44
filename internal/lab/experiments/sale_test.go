package experiments

import "testing"

func TestSales(t *testing.T) { prove(t, sales()) }
