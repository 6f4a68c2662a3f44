package web

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Messages returns the texts of the pages by language and key. A name in braces in a text is replaced when it is shown.
func Messages() (map[string]map[string]string, error) {
	names, err := fs.Glob(files, "messages/*.json")
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]string)
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var messages map[string]string
		if err := json.Unmarshal(text, &messages); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[strings.TrimSuffix(path.Base(name), ".json")] = messages
	}
	return all, nil
}
