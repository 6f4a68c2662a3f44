package payment

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Unmarshal is [json.Unmarshal] into a struct of this package. The names of members are compared exactly:
// json.Unmarshal alone would take Status, STATUS and \u017ftatus for status, whichever comes last. All names of this
// package consist of lower-case letters and underscores.
func Unmarshal(text []byte, into any) error {
	if !json.Valid(text) {
		return json.Unmarshal(text, into) // which says what is wrong
	}
	var whole any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil {
		return err
	}
	removeForeign(whole)
	exact, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	return json.Unmarshal(exact, into)
}

// removeForeign removes the members whose names are none of this package's.
func removeForeign(value any) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			removeForeign(one)
		}
	case map[string]any:
		for name, one := range v {
			if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
				delete(v, name)
				continue
			}
			removeForeign(one)
		}
	}
}
