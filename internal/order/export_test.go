package order

// Moves is the table of transitions.
func Moves() []Move { return moves }
