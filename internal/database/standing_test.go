package database

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

func TestEpochs(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		shelf := d.Shelf()
		admitting(t, d, 1, 10)
		wantStanding(t, d, 1, order.Standing{Epoch: 2, Seq: []int64{0}, Stock: 10})
		persist := func(id, epoch int64) error {
			a := accepted(id, 1, id)
			a.Epoch = epoch
			_, err := shelf.Persist(t.Context(), []order.Accepted{a})
			return err
		}
		wantErr(t, persist(1, 2))

		for range 2 { // closing what is closed changes nothing
			now, err := shelf.Close(t.Context(), 1)
			if wantErr(t, err); !reflect.DeepEqual(now, order.Standing{Epoch: 3, Seq: []int64{1}, Stock: 9}) || now.Open() {
				t.Errorf("closed as %+v", now)
			}
		}
		wantErr(t, persist(2, 2)) // drained

		_, err := shelf.Open(t.Context(), 1, 2)
		wantErr(t, err, order.ErrConflict)
		now, err := shelf.Open(t.Context(), 1, 3)
		if wantErr(t, err); !reflect.DeepEqual(now, order.Standing{Epoch: 4, Seq: []int64{2}, Stock: 8}) || !now.Open() {
			t.Errorf("opened as %+v", now)
		}
		_, err = shelf.Open(t.Context(), 1, 3) // by another process, later
		wantErr(t, err, order.ErrConflict)
		_, err = shelf.Open(t.Context(), 1, 4)
		wantErr(t, err, order.ErrConflict)

		wantErr(t, persist(3, 2), order.ErrStaleEpoch) // somebody still held it
		wantErr(t, persist(2, 2))                      // which is there, and stays so
		wantErr(t, persist(4, 4))
		wantStanding(t, d, 1, order.Standing{Epoch: 4, Seq: []int64{4}, Stock: 7})
	})
}

// Whoever holds orders of the old epoch gets them in before the stock is read, or not
// at all: what was read and what is there always agree.
func TestOpenMeetsPersist(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		const stock, batches = 1000, 6
		admitting(t, d, 1, stock)
		epoch := int64(2)
		id := int64(1)
		for range 8 {
			closed, err := d.Shelf().Close(t.Context(), 1)
			wantErr(t, err)
			var opened order.Standing
			said := countErrs(t, rush(batches+1, func(i int) (err error) {
				if i == batches {
					opened, err = d.Shelf().Open(t.Context(), 1, closed.Epoch)
					return err
				}
				batch := acceptedRange(id+int64(i)*5, id+int64(i)*5+5, 1)
				for j := range batch {
					batch[j].Epoch = epoch
				}
				_, err = d.Shelf().Persist(t.Context(), batch)
				return err
			}), nil, order.ErrStaleEpoch)
			id += 5 * batches
			epoch = opened.Epoch
			if took := closed.Stock - opened.Stock; took != 5*int64(said[nil]-1) {
				t.Errorf("opened with %d less, %v", took, said)
			}
			wantStanding(t, d, 1, opened)
		}
	})
}

func TestStandingOfWhatIsNotSoldByAdmission(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 10)
		for _, id := range []int64{1, 404} {
			_, err := d.Shelf().Standing(t.Context(), id)
			wantErr(t, err, voucher.ErrNotFound)
			_, err = d.Shelf().Close(t.Context(), id)
			wantErr(t, err, voucher.ErrNotFound)
			_, err = d.Shelf().Open(t.Context(), id, 1)
			wantErr(t, err, order.ErrConflict)
		}
	})
}

func idsOf(sales []order.Sale) (ids []int64) {
	for _, s := range sales {
		ids = append(ids, s.VoucherID)
	}
	return ids
}

func TestAdmissionSalesAreFound(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		onSale(t, d, 1, 10)
		admitting(t, d, 3, 10)
		admitting(t, d, 2, 10)
		ends := newVoucher(1, 1).EndAt
		for _, tc := range []struct {
			endsAfter time.Time
			want      []int64
		}{{ends.Add(-time.Microsecond), []int64{2, 3}}, {ends, []int64{}}} {
			got, err := d.Shelf().AdmissionSales(t.Context(), tc.endsAfter)
			if wantErr(t, err); !slices.Equal(idsOf(got), tc.want) {
				t.Errorf("ending after %v: %v, want %v", tc.endsAfter, got, tc.want)
			}
		}
	})
}
