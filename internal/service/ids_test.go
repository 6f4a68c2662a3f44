package service

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"seckill/internal/idworker"
	"seckill/internal/testkit/fail"
)

// Ids come from the second source while the first has no lease, and for no other reason. The process is ready while one
// of them is.
func TestEitherSourceOfIDs(t *testing.T) {
	away := errors.New("away")
	source := func(id int64, err error) idSource {
		return idSource{
			IDs:   idsFrom(func(context.Context) (int64, error) { return id, err }),
			ready: func(context.Context) error { return err },
		}
	}
	noLease := fmt.Errorf("minting: %w", idworker.ErrNoLease)
	for name, test := range map[string]struct {
		first, second error
		id            int64
		err, ready    error
	}{
		"both":               {nil, nil, 1, nil, nil},
		"the second":         {noLease, nil, 2, nil, nil},
		"neither":            {noLease, away, 2, away, away},
		"the first, at once": {nil, away, 1, nil, nil},
		"another failure":    {away, nil, 1, away, nil},
	} {
		ids := eitherIDs(source(1, test.first), source(2, test.second))
		if id, err := ids.NextID(t.Context()); id != test.id || !errors.Is(err, test.err) {
			t.Errorf("%s: %d, %v", name, id, err)
		}
		fail.Unless(t, ids.ready(t.Context()), test.ready, "%s: ready", name)
	}
}
