package i18n

import (
	"strings"
	"unicode"
)

// Columns is the width of a text in a terminal: Chinese characters and their punctuation take two columns.
func Columns(text string) int {
	n := 0
	for _, r := range text {
		n += RuneColumns(r)
	}
	return n
}

// RuneColumns is the width of a character in a terminal.
func RuneColumns(r rune) int {
	if unicode.Is(unicode.Han, r) || r >= 0x3000 && r <= 0x303f || r >= 0xff01 && r <= 0xff60 {
		return 2
	}
	return 1
}

// Lines breaks a text into lines of at most that many columns: at its spaces, and between Chinese characters. space
// reports which characters are spaces.
func Lines(text string, columns int, space func(rune) bool) []string {
	var lines []string
	width := 0
	for _, word := range strings.FieldsFunc(text, space) {
		for i, piece := range pieces(word) {
			gap := ""
			if i == 0 && width > 0 {
				gap = " "
			}
			n := Columns(piece)
			if len(lines) == 0 || width+len(gap)+n > columns && width > 0 {
				lines, width, gap = append(lines, ""), 0, ""
			}
			lines[len(lines)-1] += gap + piece
			width += len(gap) + n
		}
	}
	return lines
}

// Punctuation that does not begin a line, and that does not end one.
const (
	closing = "，。；：、！？）》”’…%"
	opening = "（《“‘"
)

// pieces splits a word between which lines may be broken: beside its Chinese characters.
func pieces(word string) []string {
	var all []string
	var last rune
	for i, r := range word {
		wide := RuneColumns(r) == 2 || i > 0 && RuneColumns(last) == 2
		if i == 0 || wide && !strings.ContainsRune(closing, r) && !strings.ContainsRune(opening, last) {
			all = append(all, "")
		}
		all[len(all)-1] += string(r)
		last = r
	}
	return all
}
