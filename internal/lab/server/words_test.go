package server_test

import (
	"testing"

	"seckill/internal/lab/byhand"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/server"
	"seckill/internal/testkit/fail"
	"seckill/internal/web"
)

// The page has a text in every language for each refusal, for each message and state of a bench, and for each kind of
// anomaly, which the pictures call by the same name.
func TestEverythingHasWords(t *testing.T) {
	all, err := web.Messages()
	fail.NowIf(t, err)
	var keys []string
	for _, code := range server.Codes() {
		keys = append(keys, "lab.refused."+code)
	}
	for _, r := range byhand.Reasons() {
		keys = append(keys, "lab.bench.wrong."+string(r))
	}
	for _, w := range byhand.Whys() {
		keys = append(keys, "lab.bench.why."+string(w))
	}
	for _, m := range byhand.Mechanisms() {
		keys = append(keys, "lab.bench.store."+string(m.Store), "lab.bench.ends."+string(m.Ends))
	}
	for _, a := range byhand.Actions() {
		keys = append(keys, "lab.bench.do."+string(a))
	}
	for _, told := range byhand.Tolds() {
		keys = append(keys, "lab.bench.told."+told)
	}
	for _, k := range finding.Kinds() {
		keys = append(keys, "lab.kind."+string(k.Kind), "lab.means."+string(k.Kind))
	}
	for language, messages := range all {
		for _, key := range keys {
			if messages[key] == "" {
				t.Errorf("%s: %s is missing", language, key)
			}
		}
		for _, k := range finding.Kinds() {
			title, means := i18n.Name(k.Title).In(i18n.Language(language)), k.In(i18n.Language(language)).Means
			if language != "en" && (title != messages["lab.kind."+string(k.Kind)] || means != messages["lab.means."+string(k.Kind)]) {
				t.Errorf("%s: %s is %q in the pictures, and means %q in the report", language, k.Kind, title, means)
			}
		}
	}
}
