package experiments

import "testing"

func TestTransactions(t *testing.T) { prove(t, transactions()) }
