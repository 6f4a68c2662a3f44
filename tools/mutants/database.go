package main

func inDatabase() []mutant {
	return []mutant{}
}
