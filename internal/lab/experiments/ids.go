package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/internal/idworker"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/order"
)

// ids are the experiments about the ids of orders.
func ids() []comparison {
	own := lab.Setup{Policy: unlocked()}
	decides := kinds{finding.LostOrders}
	return []comparison{{
		text: "order-ids", scenario: oneMachineID, needs: []testbed.Server{testbed.Redis}, cases: []setupCase{
			{id: "ids-one-machine-id", setup: listed(flawed.OwnClock, own), breaks: decides},
			{id: "ids-leased-machine-ids", setup: own, holds: decides},
			{id: "ids-clock-steps-back", setup: listed(flawed.OwnClock, own), breaks: decides, scenario: clockStepsBack, partner: "ids-counted-in-redis"},
			{id: "ids-counted-in-redis", setup: own, holds: decides, scenario: clockStepsBack, partner: "ids-clock-steps-back"},
		},
	}}
}

// The lanes of the processes that mint ids.
const firstMinter, secondMinter = "process-1", "process-2"

// minting is a shop whose orders have ids that are minted.
type minting struct{ *shop }

// mint mints an id in the lane of a process.
func (s minting) mint(lane string, by order.IDs) int64 {
	id, err := by.NextID(s.Context())
	s.Must(err)
	s.step(lane, finding.Notes, i18n.F("mints id …%s", fmt.Sprintf("%06d", id%1_000_000)), false)
	return id
}

// insert places a user's order under an id. A program that sends an insertion again when it had no answer takes a row that is
// there already for its own, and tells the user that the order is placed.
func (s minting) insert(lane string, user, id int64) {
	o := s.newOrder(user)
	o.ID = id
	err := s.take(o)
	there := errors.Is(err, order.ErrAlreadyOrdered) || errors.Is(err, order.ErrIDTaken)
	if there {
		s.step(s.engine, finding.Refuses, i18n.F("the id is there already"), true)
	} else {
		s.Must(err)
		s.mark(s.engine, finding.WritesStock, i18n.F("order of user %d", user), false)
	}
	s.acks = append(s.acks, judge.Ack{Order: id, User: user})
	s.step(lane, finding.Notes, i18n.F("tells user %d: placed", user), there)
}

// tell draws the witness and judges.
func (s minting) tell(broken func(lost int) i18n.Text, held i18n.Text) {
	s.finish(finding.LostOrders, func(n int, _ judge.Evidence) i18n.Text { return broken(n) },
		func(int, judge.Evidence) i18n.Text { return held })
}

// oneMachineID has two processes mint an id in the same millisecond. Their operator has given both the same machine id.
func oneMachineID(t *lab.Trial, setup lab.Setup) {
	s := minting{newShop(t, setup, 2, actor(firstMinter), actor(secondMinter))}
	moment := time.Now()
	var by [2]order.IDs
	for i := range by {
		if setup.Program == flawed.OwnClock {
			by[i] = flawed.NewSnowflake(1, func() time.Time { return moment })
			continue
		}
		leased, err := idworker.NewSonyflake(t.Context(), t.RedisClient(), idworker.Config{KeyPrefix: s.prefix(), Machines: 1})
		s.Must(err)
		t.Cleanup(func() { s.Must(leased.Close(context.WithoutCancel(t.Context()))) })
		by[i] = leased
	}
	first := s.mint(firstMinter, by[0])
	second := s.mint(secondMinter, by[1])
	s.insert(firstMinter, 1, first)
	s.insert(secondMinter, 2, second)
	s.tell(func(lost int) i18n.Text {
		return i18n.F("Both processes have machine id 1, and mint the same id in the same millisecond. Process-1 inserts its order. Process-2 finds a row with its id, takes it for its own, and tells user 2 that the order is placed: %d order is told of, and nowhere.", lost)
	}, i18n.F("Each process has leased a machine id of its own, so the two ids differ, and both orders are in the database."))
}

// clockStepsBack has a process mint three ids. Between the second and the third one its clock is set back to where it was at
// the first.
func clockStepsBack(t *lab.Trial, setup lab.Setup) {
	const back = 2 * time.Second
	s := minting{newShop(t, setup, 3, actor(firstMinter))}
	moment := time.Now()
	clock := func() time.Time { return moment }
	var by order.IDs = flawed.NewSnowflake(1, clock)
	if setup.Program == "" {
		by = idworker.NewRedisCounter(t.RedisClient(), idworker.CounterConfig{KeyPrefix: s.prefix(), Now: clock})
	}
	s.insert(firstMinter, 1, s.mint(firstMinter, by))
	moment = moment.Add(back)
	s.insert(firstMinter, 2, s.mint(firstMinter, by))
	moment = moment.Add(-back)
	s.step(firstMinter, finding.Notes, i18n.F("its clock steps back by %d s", int(back.Seconds())), setup.Program != "")
	s.insert(firstMinter, 3, s.mint(firstMinter, by))
	s.tell(func(lost int) i18n.Text {
		return i18n.F("The clock is set back by %d s, and the process comes to the same millisecond again: it mints the id of user 1's order for user 3. It finds the row, takes it for its own, and tells user 3 that the order is placed: %d order is told of, and nowhere.",
			int(back.Seconds()), lost)
	}, i18n.F("The clock is set back by %d s. The count in Redis goes on, so no id comes twice, and all orders are in the database.", int(back.Seconds())))
}

// prefix is that of the keys of a run.
func (s minting) prefix() string {
	return fmt.Sprintf("%slab:ids:%d:", testbed.KeyPrefix, s.sale.Voucher)
}
