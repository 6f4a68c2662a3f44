package voucher

import "time"

// Room is the waiting room of a voucher: visitors who come before the opening are drawn into an order, later ones
// queue behind, and an order needs a pass.
type Room struct {
	// Rate is how many passes are issued a second.
	Rate int64 `json:"rate"`
	// DrawS is how long before the sale the room opens, in seconds.
	DrawS int64 `json:"draw_s"`
	// PassS is how long a pass is valid, in seconds.
	PassS int64 `json:"pass_s"`
	// PerAddress is how many tickets one address may have in the draw; 0: as many as it has users.
	PerAddress int64 `json:"per_address,omitempty"`
	// WorkBits is how many zero bits the proof of work of a ticket begins with; 0: none is asked for.
	WorkBits int64 `json:"work_bits,omitempty"`
}

// Bounds of a room's fields.
const (
	MaxRoomRate = 1_000_000
	MaxDrawS    = 86_400
	MinPassS    = 5
	MaxPassS    = 3_600

	MaxPerAddress = 1_000_000
	// MaxWorkBits is about ten seconds of a phone, see docs/waiting-room.md.
	MaxWorkBits = 24
)

// OpensAt is when a voucher's room gives tickets for the first time.
func (v *Voucher) OpensAt() time.Time {
	return v.BeginAt.Add(-time.Duration(v.Policy.Room.DrawS) * time.Second)
}

func (r *Room) validate() error {
	switch {
	case r == nil:
		return nil
	case r.Rate < 1 || r.Rate > MaxRoomRate:
		return invalid("policy.room.rate", " is %d; 1 to %d", r.Rate, MaxRoomRate)
	case r.DrawS < 0 || r.DrawS > MaxDrawS:
		return invalid("policy.room.draw_s", " is %d; 0 to %d", r.DrawS, MaxDrawS)
	case r.PerAddress < 0 || r.PerAddress > MaxPerAddress:
		return invalid("policy.room.per_address", " is %d; 0 to %d", r.PerAddress, MaxPerAddress)
	case r.WorkBits < 0 || r.WorkBits > MaxWorkBits:
		return invalid("policy.room.work_bits", " is %d; 0 to %d", r.WorkBits, MaxWorkBits)
	case r.PassS < MinPassS || r.PassS > MaxPassS:
		return invalid("policy.room.pass_s", " is %d; %d to %d", r.PassS, MinPassS, MaxPassS)
	}
	return nil
}

// RoomChange is what is to become of a voucher's room.
type RoomChange struct {
	// Close says that orders need no pass any more. A room that is closed stays closed.
	Close bool
	// Rate is the new rate.
	Rate int64
}

// apply changes the room of v, whose policy others may share.
func (c *RoomChange) apply(v *Voucher, note func(field string, from, to any)) error {
	room := v.Policy.Room
	switch {
	case room == nil && c.Close:
	case room == nil:
		return invalid("room", ": the voucher has none")
	case c.Close:
		note("room", *room, nil)
		v.Policy.Room = nil
	case c.Rate != room.Rate:
		note("room.rate", room.Rate, c.Rate)
		changed := *room
		changed.Rate = c.Rate
		v.Policy.Room = &changed
	}
	return nil
}
