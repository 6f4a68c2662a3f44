package stage

// Leave closes a house while there is another one in the program.
func (h *House) Leave() error { return h.leave() }
