package room

// IdleAfter is how long an instance keeps a room that nobody asks for.
const IdleAfter = idleAfter
