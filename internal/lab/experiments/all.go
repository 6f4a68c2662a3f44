// Package experiments has every experiment of the laboratory, as data: each weak
// mechanism beside the one that cures it, in the same scene.
package experiments

import (
	"slices"

	"seckill/internal/lab"
)

// All returns the experiments in the order in which they are read: from no lock at
// all to the failures of the strongest.
func All() lab.Set {
	return slices.Concat(
		sales(), releases(), deaths(), leases(), reentry(), panics(), transactions(), networks(), connections(),
		pauses(), failovers(), quorums(), herds(), fairness(),
	)
}
