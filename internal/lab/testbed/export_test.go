package testbed

// Leave closes an environment while there is another one in the program.
func (e *Environment) Leave() error { return e.stop() }

// Binary is the path of the service's binary.
func Binary(r *Rig) string { return r.apiBinary() }

// Kill ends a process of the service.
func Kill(i *Instance) {
	i.process.Kill()
	i.watching.Wait()
}
