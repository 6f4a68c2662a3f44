// Package service wires the flash sale by hand: [Run] is the diagram of the system, and [Command] the program api with
// its flags, subcommands and exit codes. The system tests in test/ run both.
package service
