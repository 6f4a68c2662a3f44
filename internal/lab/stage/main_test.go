package stage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"seckill/internal/lab/stage"
	"seckill/internal/testkit"
)

// house and embedded are what the tests share. They are package variables because
// TestMain can hand nothing on.
var house, embedded *stage.House

func TestMain(m *testing.M) { testkit.Main(inHouses{m}) }

// inHouses runs tests between the opening of the houses and their close.
type inHouses struct{ tests *testing.M }

func (h inHouses) Run() int {
	ctx := context.Background()
	var err error
	if house, err = stage.Open(ctx, stage.Options{}); err == nil {
		embedded, err = stage.Open(ctx, stage.Options{Embedded: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := h.tests.Run()
	if err := errors.Join(embedded.Leave(), house.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "close the houses:", err)
		code = max(code, 1)
	}
	return code
}

// play plays a scene, which must come to its end.
func play(t *testing.T, in *stage.House, needs []stage.Server, scene func(*stage.Stage)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	skipped, err := in.Play(ctx, t.Name(), needs, scene)
	if err != nil {
		t.Fatal(err)
	}
	if skipped != "" {
		t.Skip(skipped)
	}
}

func real() []stage.Server { return []stage.Server{stage.Redis, stage.Database} }
