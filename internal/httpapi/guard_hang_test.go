package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"seckill/internal/httpapi"
	"seckill/internal/lock"
)

// A wait that timed out does not show the reason, so the guard checks whether the server answers.
func TestBestEffortWaitRunsOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		server inspectable
		ran    bool
	}{
		{"the server answers", inspectable{state: lock.State{Owner: "other", Count: 1}}, false},
		{"the server answers, the key is free by now", inspectable{}, false},
		{"the server hangs", inspectable{hangs: true}, true},
		{"the server is away", inspectable{err: fmt.Errorf("%w: dial", lock.ErrUnavailable)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, lab)
				c.server.fakeLocker = r.locks["reentrant"].(*fakeLocker)
				c.server.refuse = &lock.NotAcquiredError{Key: "g:7"}
				r.locks["reentrant"] = &c.server
				ran := false
				err := r.api.AddRoute("POST", "/guarded/:id", true, func(context.Context, func() ([]byte, error)) error {
					ran = true
					return nil
				}, httpapi.Guard{Key: "g:{path.id}", Lock: "reentrant", BestEffort: true})
				if err != nil {
					t.Fatal(err)
				}
				rec := r.guarded(t.Context())
				if ran != c.ran || ran != (rec.Code == http.StatusOK) {
					t.Errorf("ran: %t; %d %s", ran, rec.Code, rec.Body)
				}
				if !ran {
					wantProblem(t, rec, http.StatusConflict, "busy")
				}
			})
		})
	}
}
