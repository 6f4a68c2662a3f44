package voucher

// List says which vouchers are listed, and in which order. The zero value lists all, oldest first.
type List struct {
	State State
	Sort  Sort
	// After is the place after which the list goes on; the zero value is its beginning.
	After Position
}

// State is where a moment lies in the window of a sale. "" is any of them.
type State string

// The states.
const (
	StateOpen State = "open" // BeginAt ≤ now < EndAt
	StateSoon State = "soon" // now < BeginAt
	StateOver State = "over" // EndAt ≤ now
)

// Sort is the order of a list. "" is by ID: the oldest voucher first.
type Sort string

// The orders. Of vouchers that begin at the same moment, the ID decides.
const (
	SortBegin     Sort = "begin_at"
	SortBeginDesc Sort = "-begin_at"
)

// Position is a voucher's place in a list. It does not move when the voucher is deleted, or begins at another time.
type Position struct {
	BeginAt int64 // in µs since 1970; 0 in a list by ID
	ID      int64
}

// Position returns the place of a voucher in the list.
func (l List) Position(v *Voucher) Position {
	if l.Sort == "" {
		return Position{ID: v.ID}
	}
	return Position{BeginAt: v.BeginAt.UnixMicro(), ID: v.ID}
}

// fromStart reports whether the list is asked for from its beginning.
func (l List) fromStart() bool { return l.After == Position{} }
