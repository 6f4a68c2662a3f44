package database

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// listOf is what a list has, and in which order, without a database.
func listOf(all []*voucher.Voucher, list voucher.List, now time.Time) (ids []int64) {
	all = slices.SortedFunc(slices.Values(all), func(a, b *voucher.Voucher) int {
		switch byBegin := a.BeginAt.Compare(b.BeginAt); list.Sort {
		case voucher.SortBegin:
			return cmp.Or(byBegin, cmp.Compare(a.ID, b.ID))
		case voucher.SortBeginDesc:
			return -cmp.Or(byBegin, cmp.Compare(a.ID, b.ID))
		}
		return cmp.Compare(a.ID, b.ID)
	})
	for _, v := range all {
		state := voucher.StateOpen
		if now.Before(v.BeginAt) {
			state = voucher.StateSoon
		} else if !now.Before(v.EndAt) {
			state = voucher.StateOver
		}
		if list.State == "" || list.State == state {
			ids = append(ids, v.ID)
		}
	}
	return ids
}

// everyList calls fn with every kind of list, from its beginning.
func everyList(fn func(voucher.List)) {
	for _, state := range []voucher.State{"", voucher.StateOpen, voucher.StateSoon, voucher.StateOver} {
		for _, sort := range []voucher.Sort{"", voucher.SortBegin, voucher.SortBeginDesc} {
			fn(voucher.List{State: state, Sort: sort})
		}
	}
}

// The pages of each list follow each other without a gap or an overlap, also where sales begin at the same moment, and
// the bounds of a sale's window are half open.
func TestListsOfVouchers(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		now := time.Date(2026, 6, 1, 12, 0, 0, 123_000, time.UTC)
		random := rand.New(rand.NewPCG(1, 2))
		var all []*voucher.Voucher
		for id := range int64(40) {
			v := newVoucher(1+id*7919%101, 1)
			v.BeginAt = now.Add(time.Duration(random.IntN(7)-3) * time.Microsecond)
			v.EndAt = v.BeginAt.Add(time.Duration(1+random.IntN(3)) * time.Microsecond)
			fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
			all = append(all, v)
		}
		everyList(func(list voucher.List) {
			want := listOf(all, list, now)
			if len(want) < 5 {
				t.Fatalf("%+v has only %v", list, want)
			}
			var got []int64
			for {
				page, err := d.Vouchers().Vouchers(t.Context(), list, now, 3)
				fail.NowIf(t, err)
				if len(page) == 0 {
					break
				}
				for _, v := range page {
					got = append(got, v.ID)
				}
				if len(got) > len(want) {
					break
				}
				list.After = list.Position(page[len(page)-1])
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %v, want %v", list, got, want)
			}
		})
	})
}

// However many vouchers there are, a list reads those that it returns, and of the others no more than the sales that
// are not over: it follows an index from where it begins.
func TestListsAreNotScans(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		createVoucher(t, d, 1, 1)
		explain := "EXPLAIN "
		if d.name == "sqlite" {
			explain = "EXPLAIN QUERY PLAN "
		}
		everyList(func(list voucher.List) {
			after := time.Now().Add(-time.Hour) // inside of what the list has: the servers see what cannot be
			if list.State == voucher.StateSoon {
				after = time.Now().Add(time.Hour)
			}
			list.After = voucher.Position{BeginAt: after.UnixMicro(), ID: 5}
			statement := d.rows.ToSQL(func(db *gorm.DB) *gorm.DB {
				return d.Vouchers().listed(db, list, time.Now().UTC(), 100).Find(&[]voucherRow{})
			})
			var plan []map[string]any
			fail.NowIf(t, d.rows.Raw(explain+statement).Scan(&plan).Error)
			plan = slices.DeleteFunc(plan, func(of map[string]any) bool { // of the parts: a table without rows is scanned
				return strings.Contains(strings.ToLower(fmt.Sprint(of)), "subquery table:s ")
			})
			index := map[bool]string{true: "primary", false: "vouchers_by_"}[list.Sort == "" && (list.State == "" || list.State == voucher.StateOver)]
			// Of the parts of the stock a server may scan those few that there are.
			plan = slices.DeleteFunc(plan, func(row map[string]any) bool { return strings.Contains(fmt.Sprint(row["select_type"]), "SUBQUERY") })
			told := strings.ToLower(fmt.Sprint(plan))
			if !strings.Contains(told, index) || strings.Contains(told, "scan v ") || strings.Contains(told, "table scan") || strings.Contains(told, "type:all") {
				t.Errorf("%+v: %s\n%s", list, told, statement)
			}
		})
	})
}
