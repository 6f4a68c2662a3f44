package database

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Each error of the server and of the driver is of a kind that the service knows, and of a class that metrics count.
func TestTranslation(t *testing.T) {
	t.Parallel()
	number := func(n uint16) error { return fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: n}) }
	for name, test := range map[string]struct {
		err, want error
		class     ErrorClass
	}{
		"duplicate":            {number(1062), errDuplicate, DataRejected},
		"out of range":         {number(1690), voucher.ErrSoldOut, DataRejected},
		"check, MySQL":         {number(3819), voucher.ErrSoldOut, DataRejected},
		"check, MariaDB":       {number(4025), voucher.ErrSoldOut, DataRejected},
		"deadlock":             {number(1213), order.ErrUnavailable, Collision},
		"lock wait":            {number(1205), order.ErrUnavailable, Collision},
		"too many":             {number(1040), order.ErrUnavailable, TooManyConnections},
		"shutdown":             {number(1053), order.ErrUnavailable, ""},
		"password":             {number(1045), order.ErrUnavailable, Access},
		"disk full":            {number(1114), order.ErrUnavailable, DiskFull},
		"table gone":           {number(1146), order.ErrUnavailable, Schema},
		"read-only session":    {number(1792), order.ErrUnavailable, ReadOnly},
		"read-only server":     {number(1290), order.ErrUnavailable, ReadOnly},
		"offline":              {number(3032), order.ErrUnavailable, Offline},
		"not listed":           {number(4999), order.ErrUnavailable, OtherServerError},
		"bad connection":       {driver.ErrBadConn, order.ErrUnavailable, Unreachable},
		"invalid connection":   {mysql.ErrInvalidConn, order.ErrUnavailable, Unreachable},
		"cut off":              {io.ErrUnexpectedEOF, order.ErrUnavailable, Unreachable},
		"refused":              {&net.OpError{Op: "dial", Err: errors.New("refused")}, order.ErrUnavailable, Unreachable},
		"the driver's dial":    {context.DeadlineExceeded, order.ErrUnavailable, ""},
		"too long":             {number(1406), errMisfit, DataRejected},
		"anything else at all": {errors.New("Error 1062: Duplicate entry"), order.ErrUnavailable, ""},
	} {
		got := translate(t.Context(), test.err)
		if !errors.Is(got, test.err) || errors.Is(got, order.ErrRefused) {
			t.Errorf("%s: %v", name, got)
		}
		for _, domain := range []error{errDuplicate, voucher.ErrSoldOut, errMisfit, order.ErrUnavailable} {
			if errors.Is(got, domain) != errors.Is(test.want, domain) {
				t.Errorf("%s: translated to %v", name, got)
			}
		}
		if class := ClassOf(got); test.class != "" && class != test.class {
			t.Errorf("%s: of class %q, want %q", name, class, test.class)
		}
	}
	for err, want := range map[error]ErrorClass{nil: NoError, missingVoucher(7): NoVoucher, errNoSecondOrder: DataRejected, errors.New("panic"): InternalError} {
		fail.Unequal(t, ClassOf(err), want, "%v: of class", err)
	}
	for n, class := range mysqlClasses {
		if !slices.Contains(ErrorClasses(), class) {
			t.Errorf("%d is %q, which is not listed", n, class)
		}
	}
}

// An error that a trigger or a constraint raises may be about one row, and is reported as such.
func TestRefusedForItsData(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]bool{"22001": true, "23000": true, "45000": true, "HY000": false, "42S02": false, "28000": false} {
		err := &mysql.MySQLError{Number: 1644}
		copy(err.SQLState[:], state)
		got := translate(t.Context(), err)
		fail.Unless(t, got, order.ErrUnavailable)
		fail.Unequal(t, errors.Is(got, order.ErrRefused), want, "SQLSTATE %s became %v; a refusal", state, got)
	}
}

func TestEndedContextIsTheContextsError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{driver.ErrBadConn, mysql.ErrInvalidConn, context.Canceled, errors.New("other"), errDeadlock} {
		if got := translate(ctx, err); !errors.Is(got, context.Canceled) || errors.Is(got, order.ErrUnavailable) {
			t.Errorf("%v became %v", err, got)
		}
	}
	// An answer of the database counts even so.
	fail.Unless(t, translate(ctx, &mysql.MySQLError{Number: 1062}), errDuplicate)
}

func TestSlowStatementsAreLoggedWithoutParameters(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := databaseConfig(testkit.SQLite(t))
	c.SlowQuery = time.Nanosecond
	c.Logger = slog.New(slog.NewTextHandler(&out, nil))
	d := openMigrated(t, c)
	v := newVoucher(1, 5)
	v.Title = "a title of mine"
	fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
	fail.NowIf(t, placeOrder(t.Context(), d, newOrder(778899, 1, 42), true))
	fail.Without(t, out.String(), "INSERT INTO `vouchers`", "INSERT INTO orders", "UPDATE vouchers", "COMMIT")
	for _, parameter := range []string{"a title of mine", "778899"} {
		if strings.Contains(out.String(), parameter) {
			t.Errorf("log has the parameter %q", parameter)
		}
	}

	many := "INSERT INTO orders VALUES " + strings.Repeat("(?, ?, ?), ", 500)
	if got := shorten(many); len(got) > maxLogged+50 || !strings.HasPrefix(got, many[:maxLogged]) || !strings.HasSuffix(got, fmt.Sprintf("(%d bytes)", len(many))) {
		t.Errorf("a long statement is logged as %q", got)
	}

	out.Reset()
	c.SQLite, c.SlowQuery = testkit.SQLite(t).DSN, -1
	openMigrated(t, c)
	if strings.Contains(out.String(), "slow") {
		t.Errorf("logged although switched off: %s", &out)
	}
}
