package judgetest

import (
	"slices"

	"seckill/internal/lab/finding"
)

// Histories returns examples of every kind of anomaly, and of histories without any.
func Histories() []History { return slices.Concat(histories, unseen) }

// unseen are histories of keys that were there for less than the time between two samples.
var unseen = []History{
	{Name: "a key that the observer never saw is deleted", Events: `
		0   store free
		1   17 acquired asked=0
		2   store 17 ttl=100
		101 store free
		102 18@2 acquired asked=101
		104 17 releasing asked=103 left=-1 stored=18
		105 17 released asked=104
		400 end`, Want: map[finding.Kind]int{finding.WrongReleases: 1, finding.Overlaps: 1}},
	{Name: "a release of another key, and the observer was late", Events: `
		0   store free
		1   17 acquired asked=0
		2   store 17 ttl=100
		101 store free
		102 18@2 acquired asked=101
		104 17 releasing asked=103 left=-1 stored=18
		105 17 released asked=104
		140 store 18 ttl=60
		202 store free
		400 end`, Want: map[finding.Kind]int{finding.Overlaps: 1}},
}
