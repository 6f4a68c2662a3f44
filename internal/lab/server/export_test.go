package server

// Codes are those of the answers to requests that are refused.
func Codes() []string {
	codes := []string{"internal"}
	for _, s := range statuses {
		codes = append(codes, s.code)
	}
	return codes
}

// Ladder is the levels with their shortest schedules.
func Ladder() []level { return ladder() }
