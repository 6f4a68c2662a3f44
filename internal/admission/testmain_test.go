package admission_test

import (
	"flag"
	"os"
	"testing"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.ExamplesNeed("redis-server")
	settings := map[string]string{"rapid.nofailfile": "true"}
	if os.Getenv(testkit.ServersVar) != "1" { // on real servers there are a hundred
		settings["rapid.checks"], settings["rapid.steps"] = "8", "20"
	}
	for name, value := range settings {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	testkit.Main(m, testkit.Children{lateChild: child})
}
