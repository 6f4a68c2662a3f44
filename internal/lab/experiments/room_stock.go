package experiments

import (
	"cmp"
	"fmt"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/room"
)

const (
	// behindCount wait when the last of roomStock units is sold. slowRate of them are called a second.
	behindCount = 300
	roomStock   = 20
	slowRate    = 10
	// inVainAfter is how long after that people are asked what they are told.
	inVainAfter = 10 * time.Second
)

// soldOutAhead has others buy all units while people wait, and asks the people what they are told.
func soldOutAhead(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, behindCount)
	r := openRoom(t, setup, roomStock, 2, actor(lanePeople))
	r.rate = slowRate
	tickets, places := make([]string, n), make([]int64, n)
	if setup.Program == flawed.RateOnly {
		for i := range places {
			var err error
			places[i], err = r.queue.Place(t.Context(), int64(i)+1)
			r.Must(err)
		}
	} else {
		r.open()
		for i := range tickets {
			tickets[i] = r.enter(i, int64(i)+1)
		}
		r.Until("the last one to wait", func() bool { return r.look(n-1, int64(n), tickets[n-1], false).State == room.Waiting })
	}
	r.step(lanePeople, finding.Notes, i18n.F("%d wait", n), false)
	for i := range roomStock {
		r.Must(r.take(r.newOrder(int64(n + i + 1))))
	}
	r.ordersOf()
	soldOut := r.step(laneRedis, finding.Notes, i18n.F("sold out"), false)

	if setup.Program == flawed.RateOnly {
		began := time.Now()
		called, wait := flawed.Pace{Began: began, Rate: slowRate}.Serving(began.Add(inVainAfter)), 0
		for _, place := range places {
			if place > called {
				wait++
			}
		}
		r.step(laneRedis, finding.Notes, i18n.F("calls up to %d", called), true)
		r.step(lanePeople, finding.Notes, i18n.F("%d are still told to wait", wait), true)
		r.tell(finding.InVain, wait,
			i18n.F("The last unit is sold at %s, and %d people wait. The room calls %d a second and looks at nothing but the clock: after %d s it has called %d of them to an empty shop, and tells %d to wait.",
				moment(soldOut), n, slowRate, int(inVainAfter.Seconds()), called, wait), i18n.Text{})
		return
	}
	var wait int
	began := time.Now()
	for {
		wait = 0
		for i, ticket := range tickets {
			if r.look(i, int64(i)+1, ticket, false).State != room.SoldOut {
				wait++
			}
		}
		if wait == 0 || time.Since(began) > inVainAfter {
			break
		}
		r.Sleep(apart)
	}
	told := millis(time.Since(began))
	t.Measure(i18n.F("until all were told"), told, i18n.F("ms"))
	r.step(lanePeople, finding.Refuses, i18n.F("%d are told: sold out", n-wait), wait > 0)
	r.tell(finding.InVain, wait, i18n.F("%d are still told to wait", wait),
		i18n.F("The last unit is sold at %s, and %d people wait. Both processes read the stock twice a second, so all of them are told that it is sold out, %.0f ms after it.",
			moment(soldOut), n, told))
}

const (
	// leaversCount wait for roomStock units, and every second one has left. The sale ends after leaversSale.
	leaversCount = 60
	leaversSale  = 30 * time.Second
	// keptFor is how long a unit is kept for somebody who was called.
	keptFor = time.Minute
)

// stays reports whether a visitor is still there.
func stays(user int64) bool { return user%2 == 1 }

// everySecondLeft has people wait, every second of whom leaves before the sale begins. The others buy as soon as they may.
func everySecondLeft(t *lab.Trial, setup lab.Setup) {
	r := openRoom(t, setup, roomStock, 2, actor(lanePeople))
	r.step(lanePeople, finding.Notes, i18n.F("%d wait", leaversCount), false)
	r.step(lanePeople, finding.Notes, i18n.F("every second one has left"), false)
	var called int64
	var bought map[int64]bool
	began := time.Now()
	if setup.Program == flawed.CalledHolds {
		called, bought = r.sellWithHolds()
	} else {
		called, bought = r.sellWithPasses()
	}
	took := time.Since(began).Seconds()
	r.refused = []int64{}
	for user := int64(1); user <= leaversCount; user++ {
		if stays(user) && !bought[user] {
			r.refused = append(r.refused, user)
		}
	}
	ev := r.evidence()
	left := int(ev.Audit.Stock)
	r.step(lanePeople, finding.Notes, i18n.F("%d come and buy", len(bought)), false)
	r.ordersOf()
	r.step(lanePeople, finding.Refuses, i18n.F("the sale ends"), left > 0)
	r.finish(finding.Undersold, func(found int, _ judge.Evidence) i18n.Text {
		return i18n.F("%d wait for %d units, and every second one has left. The room calls %d and keeps a unit for each of them for a minute: %d come and buy. After %d s the sale ends. %d units are kept for people who left, and %d who are there get nothing.",
			leaversCount, roomStock, called, len(bought), int(leaversSale.Seconds()), found, len(r.refused))
	}, func(int, judge.Evidence) i18n.Text {
		return i18n.F("%d wait for %d units, and every second one has left. A call keeps nothing, and the room sees how many of the called come: it calls %d, and %d come and buy. All %d units are sold after %.1f s.",
			leaversCount, roomStock, called, len(bought), roomStock, took)
	})
}

// sellWithHolds sells to those whom the program calls. The experiment sets its clock, a second on after each call.
func (r *waitingRoom) sellWithHolds() (called int64, bought map[int64]bool) {
	bought = map[int64]bool{}
	clock := time.Now()
	end := clock.Add(leaversSale)
	holds := flawed.OpenHolds(keptFor, func() time.Time { return clock })
	for ; clock.Before(end); clock = clock.Add(time.Second) {
		before := called
		if called = holds.Call(int64(r.left()), leaversCount); called > before {
			r.step(laneRedis, finding.Notes, i18n.F("calls up to %d", called), false)
		}
		for place := before + 1; place <= called; place++ {
			if stays(place) {
				r.Must(r.take(r.newOrder(place)))
				holds.Ordered(place)
				bought[place] = true
			}
		}
	}
	return called, bought
}

// sellWithPasses sells to those who get a pass of the project's room, until all is sold or the sale is over.
func (r *waitingRoom) sellWithPasses() (called int64, bought map[int64]bool) {
	bought = map[int64]bool{}
	r.open()
	tickets := make([]string, leaversCount)
	for i := range tickets {
		tickets[i] = r.enter(i, int64(i)+1)
	}
	v, err := r.Voucher(r.Context(), r.sale.Voucher)
	r.Must(err)
	for began := time.Now(); len(bought) < roomStock && time.Since(began) < leaversSale; r.Sleep(apart) {
		for i, ticket := range tickets {
			user := int64(i) + 1
			if !stays(user) || bought[user] || len(bought) == roomStock {
				continue
			}
			a := r.look(i, user, ticket, true)
			if a.Serving > called {
				called = a.Serving
				r.mark(laneRedis, finding.Notes, i18n.F("calls up to %d", called), false)
			}
			if a.Pass == "" {
				continue
			}
			service, request := r.instances[i%len(r.instances)], fmt.Sprint("request ", user)
			r.Must(service.Use(r.Context(), v, user, a.Pass, request))
			r.Must(r.take(r.newOrder(user)))
			service.Done(r.Context(), v, a.Pass, request, true)
			bought[user] = true
		}
	}
	return called, bought
}
