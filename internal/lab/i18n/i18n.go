// Package i18n has what the laboratory tells of a run: texts that can be read in English and in Chinese.
//
// A text is made where something happens, with an English format and its values:
//
//	i18n.F("%s releases at %s", i18n.Name("buyer 1"), when)
//
// It keeps both, so that it can be told in the other language as well. The English format is the key of the Chinese
// one, in zh.json. A format that has none there fails a test.
package i18n

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Language is a language that texts are told in.
type Language string

// The languages.
const (
	English Language = "en"
	Chinese Language = "zh"
)

// Languages returns them.
func Languages() []Language { return []Language{English, Chinese} }

// Text is a text in all languages. The zero text is empty.
type Text struct {
	format string
	values []any
	kind   kind
}

type kind int

const (
	formatted kind = iota
	plain          // the format is the text, in every language
	joined         // the values are texts, one after the other
	written        // the format is the English text, the value the Chinese one
	sentence       // the value is a text, which begins with a capital
)

// F returns a text with values, as [fmt.Sprintf] does. Values that are texts or names are told in the text's language.
// The format must be a constant: it is a key of zh.json. Where one English text is several in Chinese, what it is about
// comes first: "verdict|holds" is told as "holds".
func F(format string, values ...any) Text { return Text{format: format, values: values} }

// Key is F for formats that are not written in Go, such as those of a template. A test knows where they are.
func Key(format string, values ...any) Text { return Text{format: format, values: values} }

// List returns words with commas between them.
func List(words ...Text) Text { return between(Key(", "), words) }

// Clauses returns parts of a sentence with commas between them: in Chinese it is another comma than that of a list.
func Clauses(parts ...Text) Text { return between(Key("clauses|, "), parts) }

// Sentences returns sentences one after the other.
func Sentences(texts ...Text) Text { return between(Plain(" "), texts) }

// between returns texts with a separator between them.
func between(separator Text, texts []Text) Text {
	t := Text{kind: joined}
	for i, one := range texts {
		if i > 0 {
			t.values = append(t.values, separator)
		}
		t.values = append(t.values, one)
	}
	return t
}

// Sentence returns a text that begins with a capital letter, also if it begins with a name: "Buyer 17 gets the lock".
func Sentence(text Text) Text {
	if text.IsZero() {
		return text
	}
	return Text{kind: sentence, values: []any{text}}
}

// Plain returns a text that is the same in every language, such as a value or a statement.
func Plain(text string) Text { return Text{format: text, kind: plain} }

// Both returns a text that was written in both languages.
func Both(english, chinese string) Text {
	return Text{format: english, values: []any{chinese}, kind: written}
}

// Of returns the text that is a name.
func Of(name Name) Text { return Text{values: []any{name}, kind: joined} }

// Join returns texts one after the other.
func Join(texts ...Text) Text {
	t := Text{kind: joined}
	for _, one := range texts {
		t.values = append(t.values, one)
	}
	return t
}

// IsZero reports whether the text is empty.
func (t Text) IsZero() bool { return t.format == "" && len(t.values) == 0 }

// String is the text in English.
func (t Text) String() string { return t.In(English) }

// In is the text in a language.
func (t Text) In(l Language) string {
	switch t.kind {
	case plain:
		return t.format
	case written:
		if chinese, ok := t.values[0].(string); ok && l == Chinese {
			return chinese
		}
		return t.format
	case sentence:
		text := fmt.Sprint(in(t.values[0], l))
		first, size := utf8.DecodeRuneInString(text)
		return string(unicode.ToUpper(first)) + text[size:]
	case joined:
		var b strings.Builder
		for _, one := range t.values {
			fmt.Fprint(&b, in(one, l))
		}
		return spaced(b.String(), l)
	}
	values := make([]any, len(t.values))
	for i, v := range t.values {
		values[i] = in(v, l)
	}
	return spaced(fmt.Sprintf(t.in(l), values...), l)
}

var space = regexp.MustCompile(`([\p{Han}，。；：）]) ([\p{Han}，。；：（])`)

// spaced returns a text without what its values have brought into it: Chinese has a space beside a number or a word in
// Latin letters, and none between its own characters.
func spaced(text string, l Language) string {
	if l != Chinese {
		return text
	}
	for range 2 { // of two spaces with one character in between, the second
		text = space.ReplaceAllString(text, "$1$2")
	}
	return text
}

// in is the format in a language.
func (t Text) in(l Language) string {
	if l == Chinese {
		if format, ok := chinese()[t.format]; ok {
			return format
		}
	}
	if _, format, ok := strings.Cut(t.format, "|"); ok {
		return format
	}
	return t.format
}

// in is a value of a text in a language.
func in(value any, l Language) any {
	if v, ok := value.(interface{ In(l Language) string }); ok {
		return v.In(l)
	}
	return value
}

// All is the text in each language.
func (t Text) All() map[Language]string {
	all := make(map[Language]string)
	for _, l := range Languages() {
		all[l] = t.In(l)
	}
	return all
}

// Rename returns the text with other names, also in its values.
func (t Text) Rename(rename func(Name) Name) Text {
	return t.Map(func(value any) any {
		if name, is := value.(Name); is {
			return rename(name)
		}
		return value
	})
}

// Map returns the text with other values, also in those that are texts.
func (t Text) Map(change func(value any) any) Text {
	t.values = slices.Clone(t.values)
	for i, v := range t.values {
		if text, is := v.(Text); is {
			t.values[i] = text.Map(change)
		} else {
			t.values[i] = change(v)
		}
	}
	return t
}

// MarshalText implements [encoding.TextMarshaler]: the text in English.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. The other languages are lost.
func (t *Text) UnmarshalText(text []byte) error {
	*t = Text{}
	if len(text) > 0 {
		*t = Plain(string(text))
	}
	return nil
}

// Name is the name of an actor or a server, as events and lanes have it: "buyer 17 (api-1)", "MariaDB". It is the same
// actor in every language, so it is a string.
type Name string

var (
	parts  = regexp.MustCompile(`^(.*?)( \(.*\))?(, again(?: \d+)?)?$`)
	number = regexp.MustCompile(`\d+$`)
)

// In is the name in a language. A name that is not in zh.json is the same in every language.
func (n Name) In(l Language) string {
	p := parts.FindStringSubmatch(string(n))
	if l == English || p == nil {
		return string(n)
	}
	name, again := p[1], ""
	if p[3] != "" {
		again = "（" + chinese()["again"] + strings.TrimPrefix(p[3], ", again") + "）"
	}
	digits := number.FindString(name)
	key := strings.ToLower(strings.TrimSuffix(name, digits))
	if digits != "" {
		key += "%s"
	}
	if format, ok := chinese()[key]; ok {
		name = strings.ReplaceAll(format, "%s", digits)
	}
	return name + p[2] + again
}

//go:embed zh.json
var chineseJSON []byte

// chinese are the Chinese formats by the English ones.
var chinese = sync.OnceValue(func() map[string]string {
	var formats map[string]string
	if err := json.Unmarshal(chineseJSON, &formats); err != nil {
		panic(fmt.Sprintf("zh.json: %v", err)) // a test reads it
	}
	return formats
})

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
