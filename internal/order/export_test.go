package order

// Transitions is the table of transitions.
func Transitions() []Transition { return transitions }
