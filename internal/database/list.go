package database

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"seckill/internal/voucher"
)

// Vouchers implements [voucher.Store].
func (s *Vouchers) Vouchers(ctx context.Context, list voucher.List, now time.Time, limit int) ([]*voucher.Voucher, error) {
	var rows []voucherRow
	if err := s.listed(s.db.rows.WithContext(ctx), list, stamp(now), limit).Find(&rows).Error; err != nil {
		return nil, translate(ctx, err)
	}
	vouchers := make([]*voucher.Voucher, len(rows))
	var err error
	for i, row := range rows {
		if vouchers[i], err = row.voucher(); err != nil {
			return nil, err
		}
		if err := s.setReturnsAt(ctx, vouchers[i]); err != nil {
			return nil, err
		}
	}
	return vouchers, nil
}

// listed selects the rows of a list. It names the index, because no server can know that few sales are open or to come,
// and most are over. Sales to come are read by their beginning, and open ones by their end; both are then sorted. Sales
// that are over are read in the order of the list, where most rows belong to them.
func (s *Vouchers) listed(db *gorm.DB, list voucher.List, now time.Time, limit int) *gorm.DB {
	db = withParts(db)
	const byBegin, byEnd = "vouchers_by_begin", "vouchers_by_end"
	var index string
	if list.Sort != "" {
		index = byBegin
	}
	switch list.State {
	case voucher.StateOpen:
		index = byEnd
		db = db.Where("begin_at <= ? AND end_at > ?", now, now)
	case voucher.StateSoon:
		index = byBegin
		db = db.Where("begin_at > ?", now)
	case voucher.StateOver:
		db = db.Where("begin_at < ? AND end_at <= ?", now, now) // the first follows from the second, and bounds the index
	}
	after, begin := list.After, time.UnixMicro(list.After.BeginAt).UTC()
	switch list.Sort {
	case voucher.SortBeginDesc:
		if after.ID != 0 {
			db = db.Where("begin_at <= ? AND (begin_at < ? OR id < ?)", begin, begin, after.ID)
		}
		db = db.Order("begin_at DESC, id DESC")
	case voucher.SortBegin:
		if after.ID != 0 {
			db = db.Where("begin_at >= ? AND (begin_at > ? OR id > ?)", begin, begin, after.ID)
		}
		db = db.Order("begin_at, id")
	default:
		db = db.Where("id > ?", after.ID).Order("id")
	}
	if index != "" {
		db = db.Table("vouchers v " + fmt.Sprintf(s.db.useIndex, index))
	}
	return db.Limit(limit)
}
