package server_test

import (
	"testing"

	"seckill/internal/lab/bench"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/server"
	"seckill/internal/lab/tell"
	"seckill/internal/web"
)

// Each refusal, message and state of a bench has a text in every language.
func TestBenchHasWords(t *testing.T) {
	all, err := web.Messages()
	if err != nil {
		t.Fatal(err)
	}
	for language, messages := range all {
		var keys []string
		for _, r := range bench.Reasons() {
			keys = append(keys, "lab.bench.wrong."+string(r))
		}
		for _, w := range bench.Whys() {
			keys = append(keys, "lab.bench.why."+string(w))
		}
		for _, m := range bench.Mechanisms() {
			keys = append(keys, "lab.bench.store."+string(m.Store), "lab.bench.lease."+string(m.Lease))
		}
		for _, a := range bench.Actions() {
			keys = append(keys, "lab.bench.do."+string(a))
		}
		for _, told := range bench.Tolds() {
			keys = append(keys, "lab.bench.told."+told)
		}
		for _, key := range keys {
			if messages[key] == "" {
				t.Errorf("%s: %s is missing", language, key)
			}
		}
	}
}

// The page says in every language why a request was refused.
func TestRefusalsHaveWords(t *testing.T) {
	all, err := web.Messages()
	if err != nil {
		t.Fatal(err)
	}
	for language, messages := range all {
		for _, code := range server.Codes() {
			if messages["lab.refused."+code] == "" {
				t.Errorf("%s: lab.refused.%s is missing", language, code)
			}
		}
	}
}

// Every kind of anomaly has a name and an explanation in every language. The pictures and the page use the same name.
func TestKindsHaveWords(t *testing.T) {
	all, err := web.Messages()
	if err != nil {
		t.Fatal(err)
	}
	for language, messages := range all {
		for _, k := range finding.Kinds() {
			if messages["lab.kind."+string(k.Kind)] == "" || messages["lab.means."+string(k.Kind)] == "" {
				t.Errorf("%s: %s has no name or explanation", language, k.Kind)
			}
			if got := k.In(tell.Language(language)).Means; language != "en" && got != messages["lab.means."+string(k.Kind)] {
				t.Errorf("%s: %s means %q in the report", language, k.Kind, got)
			}
			if got := tell.Name(k.Title).In(tell.Language(language)); language != "en" && got != messages["lab.kind."+string(k.Kind)] {
				t.Errorf("%s: %s is %q in the pictures", language, k.Kind, got)
			}
		}
	}
}
