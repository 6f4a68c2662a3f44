package main

func inLocks() []mutant {
	return []mutant{}
}
