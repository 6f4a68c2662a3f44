// Package ledger is the only home of what a waiting room keeps in Redis: the names of the keys and the Lua scripts.
//
// All keys of a room have the same hash tag, so they lie in one slot of a Redis Cluster.
//
//	key                type  holds
//	room:{voucher}     hash  the room, see below
//	room:{voucher}:N   hash  user -> visit, for the users of one of [DefaultParts] parts
//	room:{voucher}:at:N  hash  address -> its tickets in the draw, where the policy limits them
//
// The parts are so many that each stays small: Redis then keeps it in a compact form, and a visitor costs about as many
// bytes as a ticket has letters. A visit is four values, separated by commas:
//
//	number of the ticket, number up to which tickets of the user are over or -1, when the pass lapses in ms or 0, mark
//
//	mark  means
//	-     nothing
//	v     Redis had forgotten the user: whether the ticket was used is asked for before it is worth a pass
//	wS    since second S the visitor is called and waits for the rate or a unit
//	u…    the pass is in use by a request
//	s     the pass is spent
//
// The fields of the room:
//
//	born                     a name for this state: another one means that Redis has lost the one before
//	tickets, reserved        how many ticket numbers were told, and how many the database lets be told
//	drawn                    how many of them the draw has put in order; -1 before it
//	serving                  up to which position visitors are called; credit is the part of a visitor beyond that
//	issued, spent, lapsed    passes, since born
//	tokens, filled           the bucket of the rate, and when it was filled, in ms
//	last, saved              when visitors were called, and when the database was told, in ms
//	e:S                      how many live passes lapse in second S
//	c:S, g:S, w:S            in second S: visitors called, passes issued, and visitors who began to wait for a pass, and wait still
//
// Each script is a file with a header that lists KEYS, ARGV and the replies, and has one method. Each may be repeated,
// and may stop at any of its commands: what is counted twice or not at all then is a pass that lapses, or a number that
// nobody has, and never a pass too many.
//
//	restore.lua  [Ledger.Restore]  make the state from what the database has
//	ticket.lua   [Ledger.Ticket]   give a user a number
//	advance.lua  [Ledger.Advance]  draw, and call the next visitors
//	claim.lua    [Ledger.Claim]    give a visitor who is called a pass
//	spend.lua    [Ledger.Spend]    mark a pass as in use, spent, or free
package ledger
