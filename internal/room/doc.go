// Package room is the waiting room of a voucher: ten times more visitors come than can be served in a minute, and wait
// where waiting costs nothing, in an order that is fair and can be checked.
//
// A visitor gets a [Ticket] with a number. At the opening of the sale the tickets that there are get positions by a
// draw ([Draw]); later ones queue behind. The room calls positions, as fast as the voucher's policy says, and as long
// as units are left. A visitor who is called claims a [Pass], and orders with it.
//
// What is told to all is the same for all, and comes from a snapshot in memory ([State]), which each instance renews
// twice a second by one script in Redis. Any instance may run it: the script computes from Redis' clock what is due. So
// waiting visitors cost neither Redis nor the database anything.
//
// docs/waiting-room.md has the states, what is promised and what is not.
package room
