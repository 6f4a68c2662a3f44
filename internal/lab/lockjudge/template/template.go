// Package template is the lock that lab new-lock writes, with one mistake to find.
package template

import (
	_ "embed"
	"strings"
)

//go:embed lock.go.txt
var source string

// Source is the program of a lock of that name.
func Source(name string) string { return strings.ReplaceAll(source, "NAME", name) }
