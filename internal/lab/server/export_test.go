package server

// Codes are those of the answers to requests that are refused.
func Codes() []string {
	codes := []string{"internal"}
	for _, s := range statuses {
		codes = append(codes, s.code)
	}
	return codes
}

// Levels are those of the page, with their shortest schedules.
func Levels() []level { return levels() }
