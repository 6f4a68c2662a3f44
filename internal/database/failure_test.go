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
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

func TestTranslation(t *testing.T) {
	number := func(n uint16) error { return fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: n}) }
	for name, test := range map[string]struct{ err, want error }{
		"duplicate":            {number(1062), errDuplicate},
		"out of range":         {number(1690), voucher.ErrSoldOut},
		"check, MySQL":         {number(3819), voucher.ErrSoldOut},
		"check, MariaDB":       {number(4025), voucher.ErrSoldOut},
		"deadlock":             {number(1213), order.ErrUnavailable},
		"lock wait":            {number(1205), order.ErrUnavailable},
		"too many":             {number(1040), order.ErrUnavailable},
		"shutdown":             {number(1053), order.ErrUnavailable},
		"bad connection":       {driver.ErrBadConn, order.ErrUnavailable},
		"invalid connection":   {mysql.ErrInvalidConn, order.ErrUnavailable},
		"cut off":              {io.ErrUnexpectedEOF, order.ErrUnavailable},
		"refused":              {&net.OpError{Op: "dial", Err: errors.New("refused")}, order.ErrUnavailable},
		"the driver's dial":    {context.DeadlineExceeded, order.ErrUnavailable},
		"a number it knows":    {number(1146), nil},
		"anything else at all": {errors.New("Error 1062: Duplicate entry"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := translate(t.Context(), test.err)
			wantErr(t, got, test.err)
			if test.want != nil {
				wantErr(t, got, test.want)
				return
			}
			for _, domain := range []error{errDuplicate, voucher.ErrSoldOut, order.ErrUnavailable} {
				if errors.Is(got, domain) {
					t.Errorf("%v is taken for %v", test.err, domain)
				}
			}
		})
	}
}

func TestEndedContextIsTheContextsError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{driver.ErrBadConn, mysql.ErrInvalidConn, context.Canceled, errors.New("other"), errDeadlock} {
		if got := translate(ctx, err); !errors.Is(got, context.Canceled) || errors.Is(got, order.ErrUnavailable) {
			t.Errorf("%v became %v", err, got)
		}
	}
	// What the database did say stays said.
	wantErr(t, translate(ctx, &mysql.MySQLError{Number: 1062}), errDuplicate)
}

func TestSlowStatementsAreLoggedWithoutParameters(t *testing.T) {
	var out bytes.Buffer
	c := configOf(testkit.SQLite(t))
	c.SlowQuery = time.Nanosecond
	c.Logger = slog.New(slog.NewTextHandler(&out, nil))
	d := openMigrated(t, c)
	v := newVoucher(1, 5)
	v.Title = "a title of mine"
	wantErr(t, d.Vouchers().CreateVoucher(t.Context(), v))
	wantErr(t, buy(t.Context(), d, newOrder(778899, 1, 42), true))
	for _, want := range []string{"INSERT INTO `vouchers`", "INSERT INTO orders", "UPDATE vouchers", "COMMIT"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log lacks %q", want)
		}
	}
	for _, parameter := range []string{"a title of mine", "778899"} {
		if strings.Contains(out.String(), parameter) {
			t.Errorf("log has the parameter %q", parameter)
		}
	}

	out.Reset()
	c.SQLite, c.SlowQuery = testkit.SQLite(t).DSN, -1
	openMigrated(t, c)
	if strings.Contains(out.String(), "slow") {
		t.Errorf("logged although switched off: %s", &out)
	}
}
