// Package failures has no code: its tests prove what each lock does when something dies.
package failures
