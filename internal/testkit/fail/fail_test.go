package fail_test

import (
	"errors"
	"fmt"
	"testing"

	"seckill/internal/testkit/fail"
)

// told is a test that notes what it is told, and goes on.
type told string

func (*told) Helper()             {}
func (s *told) Error(args ...any) { *s += told("error " + fmt.Sprintln(args...)) }
func (s *told) Fatal(args ...any) { *s += told("fatal " + fmt.Sprintln(args...)) }

func TestFail(t *testing.T) {
	var s told
	down, wrapped := errors.New("down"), fmt.Errorf("ask: %w", errors.ErrUnsupported)
	fail.NowIf(&s, nil)
	fail.If(&s, nil)
	fail.Unless(&s, wrapped, errors.ErrUnsupported)
	fail.NowIf(&s, down)
	fail.If(&s, down, "node %d", 3)
	fail.Unless(&s, down, errors.ErrUnsupported, "the last")
	fail.Unless(&s, nil, down)
	fail.NowUnless(&s, wrapped, errors.ErrUnsupported)
	fail.NowUnless(&s, nil, down, "the first")
	fail.Unequal(&s, 2, 2)
	fail.NowUnequal(&s, 2, 2)
	fail.NowUnequal(&s, 2, 3, "left")
	fail.Unequal(&s, 2, 3, "sold")
	fail.Without(&s, "all sold", "sold", "left")
	if want := told("fatal down\nerror node 3: down\nerror the last: got down, want unsupported operation\nerror got <nil>, want down\nfatal the first: got <nil>, want down\nfatal left: got 2, want 3\nerror sold: got 2, want 3\nerror no \"left\" in\nall sold\n"); s != want {
		t.Errorf("it says\n%swant\n%s", s, want)
	}
}
