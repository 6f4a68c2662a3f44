package row

import "time"

// UndoFor changes how long the deletion of a failed acquisition's row is repeated.
func (l *Locker) UndoFor(d time.Duration) { l.undoFor = d }
