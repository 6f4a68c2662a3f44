package stage

// Leave closes a house while there is another one in the program.
func (h *House) Leave() error { return h.leave() }

// Folder is where everything of a house lies.
func Folder(h *House) string { return h.folder }

// PID is the id of a process.
func PID(i *Instance) int { return i.process.PID() }
