package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWelcomeFitsATerminal(t *testing.T) {
	for line := range strings.Lines(greeting + farewell) {
		if utf8.RuneCountInString(line) > narrow+1 { // and its end
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
}
