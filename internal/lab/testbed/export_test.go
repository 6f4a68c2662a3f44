package testbed

// Leave closes an environment while there is another one in the program.
func (e *Environment) Leave() error { return e.stop() }

// Folder is the folder of an environment.
func Folder(e *Environment) string { return e.folder }

// Binary is the path of the service's binary.
func Binary(r *Run) string { return r.apiBinary() }

// PID is the id of a process.
func PID(i *Instance) int { return i.process.PID() }
