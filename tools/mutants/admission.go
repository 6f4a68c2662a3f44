package main

func inAdmission() []mutant {
	return []mutant{}
}
