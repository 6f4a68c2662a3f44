package main

func inLaboratory() []mutant {
	return []mutant{}
}
