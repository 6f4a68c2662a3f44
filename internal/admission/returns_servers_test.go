package admission_test

import (
	"fmt"
	"testing"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A replica is promoted that lacks a return, and another process sells a unit there before anybody has compared it with
// the database: the sequence number then tells nothing. The loss is found out all the same, and the unit and its user
// are on sale again.
func TestReturnThatAFailoverForgets(t *testing.T) {
	t.Parallel()
	for _, bucket := range []int{0, 1} {
		t.Run(fmt.Sprint("bucket ", bucket), func(t *testing.T) {
			s := newShop(t, testkit.SQLite(t))
			v := s.create(admittedVoucher, 4, 2)
			user, other := usersOfBucket(bucket)[0], usersOfBucket(bucket)[1]
			id := s.bought(v, user)
			s.acknowledged(v)
			teller := s.returns
			s.start() // the other process
			fail.NowIf(t, s.gate.Open(t.Context(), v))

			s.cancel(id)
			keys := ledger.KeysOf(s.prefix, v.ID, bucket)
			before := map[string]string{}
			for _, key := range []string{keys.Meta, keys.Users} {
				before[key] = s.client.Dump(t.Context(), key).Val()
			}
			if told, err := teller.Round(t.Context()); told != 1 || err != nil {
				t.Fatalf("%d told, %v", told, err)
			}
			for key, data := range before {
				fail.NowIf(t, s.client.RestoreReplace(t.Context(), key, 0, data).Err())
			}
			s.bought(v, other)
			s.acknowledged(v)
			fail.NowUnless(t, fail.Of(s.place(t.Context(), v, user)), order.ErrAlreadyOrdered, "the return is not lost")

			s.gate.Check(t.Context())
			testkit.Until(t, "the user can buy again", func() bool {
				_, err := s.place(t.Context(), v, user)
				return err == nil
			})
			s.balanced(v)
		})
	}
}

// usersOfBucket returns some users of one of two buckets.
func usersOfBucket(bucket int) (users []int64) {
	for user := int64(1); len(users) < 2; user++ {
		if ledger.BucketOf(user, 2) == bucket {
			users = append(users, user)
		}
	}
	return users
}
