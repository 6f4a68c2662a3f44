package voucher

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkTitle accepts what a page and a line of a log can show.
func checkTitle(title string) error {
	switch {
	case strings.TrimSpace(title) == "":
		return invalid("title", " is missing")
	case !utf8.ValidString(title):
		return invalid("title", " is not valid text")
	case utf8.RuneCountInString(title) > MaxTitle:
		return invalid("title", " is longer than %d characters", MaxTitle)
	}
	at := 0
	for _, r := range title {
		if at++; controls(r) {
			return invalid("title", " has the character %U, which controls how text is shown, as character %d", r, at)
		}
	}
	if !strings.ContainsFunc(title, visible) {
		return invalid("title", " has no visible character")
	}
	return nil
}

// controls reports whether a character changes how the text around it is shown: a control character, a line break, a mark
// that overrides the direction of writing, or a byte order mark. Joiners and marks of direction that letters and emoji
// need are not among them.
func controls(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff
}

// visible reports whether a character leaves ink by itself. Fillers are letters and a blank of Braille is a symbol, and
// neither is seen.
func visible(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && r != '\u2800'
}
