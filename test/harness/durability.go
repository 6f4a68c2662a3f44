package harness

import (
	"slices"
)

var appendOnly = []string{"--appendonly", "yes", "--appendfsync"}

func Fsync(when string) []string { return append(slices.Clone(appendOnly), when) }
