package service

import (
	"time"
)

// patience bounds a wait. It only ends a test that hangs: a slow machine is no failure.
const patience = 2 * time.Minute
