package simulate

import "time"

// Sleep is [time.Sleep] in a bubble of testing/synctest, where it takes no time. Outside a bubble it panics: a test
// that sleeps in real time hopes that the machine is quick.
func Sleep(d time.Duration) {
	// The clock of a bubble begins at the start of the year 2000.
	if time.Now().Year() > 2020 {
		panic("simulate: Sleep outside a bubble of testing/synctest")
	}
	time.Sleep(d)
}
