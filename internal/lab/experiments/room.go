package experiments

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
	"seckill/internal/room"
	"seckill/internal/room/ledger"
	"seckill/internal/voucher"
)

// rooms are the experiments about a waiting room in front of a sale.
func rooms() []comparison {
	needs := []testbed.Server{testbed.Redis}
	own := lab.Setup{Policy: unlocked()}
	unfair, outOfTurn, inversions := kinds{finding.Unfair}, kinds{finding.OutOfTurn}, kinds{finding.Inversions}
	inVain, undersold := kinds{finding.InVain}, kinds{finding.Undersold}
	return []comparison{
		{text: "room-order", scenario: botAtTheDoor, needs: needs, cases: []setupCase{
			{id: "room-first-come", setup: listed(flawed.FirstCome, own), breaks: unfair},
			{id: "room-draw", setup: own, holds: unfair},
		}, parameters: []lab.Parameter{buyers(peopleCount, 600, 3000)}},
		{text: "room-rate", scenario: admittedAtOnce, needs: needs, cases: []setupCase{
			{id: "room-own-clocks", setup: listed(flawed.OwnWindow, own), breaks: outOfTurn},
			{id: "room-one-clock", setup: own, holds: outOfTurn},
		}},
		{text: "room-pass", scenario: passIsShared, needs: needs, cases: []setupCase{
			{id: "room-pass-for-anyone", setup: listed(flawed.BearerPass, own), breaks: outOfTurn},
			{id: "room-pass-bound", setup: own, holds: outOfTurn},
		}},
		{text: "room-memory", scenario: roomForgets, needs: needs, cases: []setupCase{
			{id: "room-in-redis-only", setup: listed(flawed.FirstCome, own), breaks: inversions},
			{id: "room-recorded", setup: own, holds: inversions},
		}, parameters: []lab.Parameter{buyers(waitingCount, 10, 500)}},
		{text: "room-stock", scenario: soldOutAhead, needs: needs, cases: []setupCase{
			{id: "room-blind-to-stock", setup: listed(flawed.RateOnly, own), breaks: inVain},
			{id: "room-tells-sold-out", setup: own, holds: inVain},
		}, parameters: []lab.Parameter{buyers(behindCount, 150, 1000)}},
		{text: "room-leavers", scenario: everySecondLeft, needs: needs, cases: []setupCase{
			{id: "room-keeps-for-absent", setup: listed(flawed.CalledHolds, own), breaks: undersold},
			{id: "room-calls-more", setup: own, holds: undersold},
		}},
	}
}

// The actors.
const (
	laneBot    = "bot"
	lanePeople = "people"
)

// A bot has botUsers users, and comes among peopleCount people. The first places are those that get a unit.
const (
	botUsers    = 60
	peopleCount = 1140
	firstPlaces = 100
)

// waitingRoom is a waiting room in front of a shop: that of the project, or a queue. It says when the sale begins.
type waitingRoom struct {
	*shop
	queue     flawed.Queue
	keys      string // what all keys in Redis begin with
	instances []*room.Service
	rate      int64

	mu    sync.Mutex
	begin time.Time
}

// openRoom opens one at so many processes. The sale begins with the call of [waitingRoom.open].
func openRoom(t *lab.Trial, setup lab.Setup, stock, processes int, lanes ...finding.Lane) *waitingRoom {
	r := &waitingRoom{shop: newShop(t, setup, stock, append(lanes, redisLane())...), rate: roomRate, begin: time.Now().Add(time.Hour)}
	r.keys = fmt.Sprintf("%slab:room:%d:", testbed.KeyPrefix, r.sale.Voucher)
	r.queue = flawed.OpenQueue(t.RedisClient(), r.keys+"queue")
	for range processes {
		service := room.New(room.Config{
			Store: r.db.Rooms(), Redis: ledger.New(t.RedisClient(), r.keys, 16), Vouchers: r, Sales: r, Log: slog.New(slog.DiscardHandler),
		})
		r.instances = append(r.instances, service)
		t.Cleanup(service.Close)
	}
	t.Cleanup(func() { r.forget(context.WithoutCancel(t.Context())) })
	return r
}

// forget deletes all that the room has in Redis.
func (r *waitingRoom) forget(ctx context.Context) {
	client := r.RedisClient()
	found, err := client.Keys(ctx, r.keys+"*").Result()
	r.Must(err)
	if len(found) > 0 {
		r.Must(client.Unlink(ctx, found...).Err())
	}
}

// Voucher implements [room.Vouchers].
func (r *waitingRoom) Voucher(context.Context, int64) (*voucher.Voucher, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	policy := r.sale.Policy
	policy.Room = &voucher.Room{Rate: r.rate, DrawS: voucher.MaxDrawS, PassS: voucher.MaxPassS}
	return &voucher.Voucher{ID: r.sale.Voucher, BeginAt: r.begin, EndAt: r.begin.Add(time.Hour), Policy: policy}, nil
}

// Left implements [room.Sales].
func (r *waitingRoom) Left(context.Context, *voucher.Voucher) (int64, error) {
	return int64(r.left()), nil
}

// Ordered implements [room.Sales].
func (r *waitingRoom) Ordered(_ context.Context, _ *voucher.Voucher, user int64) (bool, error) {
	return r.hasOrder(user), nil
}

// open begins the sale, and waits until the draw was made.
func (r *waitingRoom) open() {
	r.mu.Lock()
	r.begin = time.Now().Add(-time.Second)
	r.mu.Unlock()
	for i, service := range r.instances {
		r.Until(fmt.Sprintf("process-%d to know the draw", i+1), func() bool {
			a, err := service.Look(r.Context(), room.Query{VoucherID: r.sale.Voucher})
			r.Must(err)
			return a.Drawn >= 0
		})
	}
}

// enter gives a user a ticket.
func (r *waitingRoom) enter(at int, user int64) (ticket string) {
	a, err := r.instances[at%len(r.instances)].Enter(r.Context(), room.Entry{VoucherID: r.sale.Voucher, UserID: user})
	r.Must(err)
	return a.Ticket
}

// look looks with a ticket.
func (r *waitingRoom) look(at int, user int64, ticket string, claims bool) room.Answer {
	a, err := r.instances[at%len(r.instances)].Look(r.Context(), room.Query{VoucherID: r.sale.Voucher, Ticket: ticket, User: user, Claims: claims})
	r.Must(err)
	return a
}

// tell adds what was found, draws the witness, and judges.
func (r *waitingRoom) tell(kind finding.Kind, found int, broken, held i18n.Text) {
	r.Found(kind, found)
	if found > 0 {
		r.Witness(r.witness(kind, broken))
	} else {
		r.Witness(r.witness("", held))
	}
	r.Judge(r.evidence())
}

// botAtTheDoor has a bot and people ask for a place. The bot is faster than anybody's finger.
func botAtTheDoor(t *lab.Trial, setup lab.Setup) {
	people := cmp.Or(setup.Buyers, peopleCount)
	r := openRoom(t, setup, firstPlaces, 1, actor(laneBot), actor(lanePeople))
	type visitor struct {
		user int64
		at   time.Duration // after the moment at which all want to be there
	}
	luck := rand.New(rand.NewPCG(uint64(t.Seed()), 0x726f6f6d)) // the second word separates it from other uses of the seed
	all := make([]visitor, botUsers+people)
	for i := range all {
		all[i] = visitor{int64(i) + 1, time.Duration(luck.IntN(40)) * time.Millisecond}
		if i >= botUsers { // a finger and a mobile network
			all[i].at = time.Duration(150+luck.ExpFloat64()*800) * time.Millisecond
		}
	}
	slices.SortFunc(all, func(a, b visitor) int { return cmp.Compare(a.at, b.at) })

	places := make(map[int64]int64)
	if setup.Program == flawed.FirstCome {
		r.mark(laneRedis, finding.Notes, i18n.F("the sale opens"), false)
	}
	tickets := make(map[int64]string)
	for i, v := range all {
		var err error
		if setup.Program == flawed.FirstCome {
			places[v.user], err = r.queue.Place(t.Context(), v.user)
			r.Must(err)
		} else {
			tickets[v.user] = r.enter(0, v.user)
		}
		if i+1 == botUsers {
			r.step(laneBot, finding.Notes, i18n.F("%d users are there", botUsers), setup.Program != "")
		}
	}
	r.step(lanePeople, finding.Notes, i18n.F("%d people are there", people), false)
	if setup.Program == "" {
		r.open()
		r.step(laneRedis, finding.Notes, i18n.F("the draw"), false)
		for user, ticket := range tickets {
			places[user] = r.look(0, user, ticket, false).Position
		}
	}
	first := 0
	for user, place := range places {
		if user <= botUsers && place <= firstPlaces {
			first++
		}
	}
	share := float64(botUsers) / float64(len(all))
	// Chance gives more than this once in a million runs.
	most := int(math.Ceil(firstPlaces*share + 6*math.Sqrt(firstPlaces*share*(1-share))))
	r.step(laneBot, finding.Notes, i18n.F("%d of the first %d places", first, firstPlaces), first > most)
	t.Measure(i18n.F("the bot's part of the users"), 100*share, i18n.F("%%"))
	t.Measure(i18n.F("the bot's places among the first %d", firstPlaces), float64(first), i18n.Text{})
	r.tell(finding.Unfair, max(0, first-most),
		i18n.F("The bot has %d of %d users, and %d of the first %d places: its users ask within 40 ms of the opening, and the first finger takes 150 ms.",
			botUsers, len(all), first, firstPlaces),
		i18n.F("The bot has %d of %d users, and %d of the first %d places. Its users were there first, and the draw does not ask who was.",
			botUsers, len(all), first, firstPlaces))
}

// roomRate is how many are let in a second.
const roomRate = 50

// admittedAtOnce has 200 visitors ask each of two processes, whose clocks are a minute apart, within the same moment.
func admittedAtOnce(t *lab.Trial, setup lab.Setup) {
	const visitors, behind = 4 * roomRate, time.Minute
	r := openRoom(t, setup, 10*visitors, 2, actor(processOne), actor(processTwo))
	var admitted [2]int
	if setup.Program == flawed.OwnWindow {
		moment := time.Now()
		for i := range admitted {
			clock := moment.Add(-time.Duration(i) * behind)
			window := flawed.OpenWindow(t.RedisClient(), r.keys+"window", roomRate, func() time.Time { return clock })
			for range visitors {
				ok, err := window.Admit(t.Context())
				r.Must(err)
				if ok {
					admitted[i]++
				}
			}
		}
	} else {
		admitted = r.claimAll(visitors)
	}
	sum := admitted[0] + admitted[1]
	const burst = roomRate / 4 // that a token bucket has saved up
	found := max(0, sum-roomRate-burst)
	r.step(processOne, finding.Notes, i18n.F("lets in %d", admitted[0]), false)
	r.step(processTwo, finding.Notes, i18n.F("lets in %d", admitted[1]), found > 0)
	t.Measure(i18n.F("let in within a second"), float64(sum), i18n.F("rate %d", roomRate))
	r.tell(finding.OutOfTurn, found,
		i18n.F("The rate is %d a second. The clock of process-2 is a minute behind, so it counts in another window of the same counter: within one second process-1 lets in %d and process-2 lets in %d.",
			roomRate, admitted[0], admitted[1]),
		i18n.F("The rate is %d a second. Redis counts by its own clock, whatever the processes believe: within one second %d are let in at process-1 and %d at process-2.",
			roomRate, admitted[0], admitted[1]))
}

// claimFor is for how long visitors claim passes.
const claimFor = 2500 * time.Millisecond

// claimAll has visitors at each process claim passes of the project's room, and returns how many got one within its busiest
// second, at each process. They are called already, so the script that issues passes is what decides.
func (r *waitingRoom) claimAll(visitors int) (most [2]int) {
	const passFor, born = time.Hour, "lab"
	client, id, all := r.RedisClient(), r.sale.Voucher, int64(2*visitors)
	processes := [2]*ledger.Ledger{ledger.New(client, r.keys, 16), ledger.New(client, r.keys, 16)}
	r.Must(processes[0].Restore(r.Context(), id, born, room.Record{Drawn: 0}, passFor))
	numbers := make([]int64, all)
	for user := range all {
		ticket, err := processes[user%2].Ticket(r.Context(), room.TicketCall{VoucherID: id, UserID: user + 1, Shown: -1, Reserved: all, Keep: passFor})
		r.Must(err)
		numbers[user] = ticket.Number
	}
	type issue struct{ at, by int64 }
	var issued []issue
	next := [2]int64{0, 1} // the first at each process who has no pass
	for began := time.Now(); time.Since(began) < claimFor; {
		for by, user := range next {
			if user >= all {
				continue
			}
			claimed, err := processes[by].Claim(r.Context(), room.ClaimCall{
				VoucherID: id, UserID: user + 1, Number: numbers[user], Rate: roomRate, PassFor: passFor,
				Stock: room.Stock{Left: 10 * all, Born: born}, Keep: passFor,
			})
			r.Must(err)
			if claimed.Verdict == room.Passed {
				issued = append(issued, issue{claimed.Until, int64(by)})
				next[by] += 2
			}
		}
		r.Sleep(2 * time.Millisecond)
	}
	for i := range issued {
		var within [2]int
		for _, other := range issued[i:] {
			if other.at-issued[i].at < 1000 {
				within[other.by]++
			}
		}
		if within[0]+within[1] > most[0]+most[1] {
			most = within
		}
	}
	if most[0]+most[1] == 0 {
		r.Fatalf("nobody was let in")
	}
	return most
}

// friends is how many use a pass.
const friends = 10

// passIsShared has a visitor who got a pass give it to friends, and all of them order with it.
func passIsShared(t *lab.Trial, setup lab.Setup) {
	const laneFriends = "friends"
	r := openRoom(t, setup, 2*friends, 1, actor(firstBuyer), actor(laneFriends))
	bearer := flawed.BearerPasses{Key: []byte(r.keys)}
	var pass string
	if setup.Program == flawed.BearerPass {
		pass = bearer.Pass(r.sale.Voucher, time.Now().Add(time.Hour))
	} else {
		ticket := r.enter(0, 1)
		r.open()
		r.Until("buyer 1 to get a pass", func() bool {
			pass = r.look(0, 1, ticket, true).Pass
			return pass != ""
		})
	}
	r.step(firstBuyer, finding.Notes, i18n.F("gets a pass"), false)
	v, err := r.Voucher(t.Context(), r.sale.Voucher)
	r.Must(err)
	var ordered []string
	for user := int64(1); user <= friends; user++ {
		if setup.Program == flawed.BearerPass {
			if !bearer.Accepts(pass, r.sale.Voucher, time.Now()) {
				continue
			}
		} else if r.instances[0].Use(t.Context(), v, user, pass, fmt.Sprint("request ", user)) != nil {
			continue
		}
		r.Must(r.take(r.newOrder(user)))
		ordered = append(ordered, fmt.Sprint(user))
	}
	if !slices.Contains(ordered, "1") {
		t.Fatalf("the buyer whose pass it is could not order: %s", strings.Join(ordered, ", "))
	}
	others := len(ordered) - 1
	if others > 0 {
		r.step(laneFriends, finding.Notes, i18n.F("%d order with it", others), true)
	} else {
		r.step(laneFriends, finding.Refuses, i18n.F("%d are refused", friends-1), false)
	}
	r.ordersOf()
	r.tell(finding.OutOfTurn, others,
		i18n.F("Buyer 1 waits, gets a pass, and gives it to %d friends. The pass is genuine, and nothing in it says whose it is: %d orders with one turn.", friends-1, len(ordered)),
		i18n.F("Buyer 1 waits, gets a pass, and gives it to %d friends. The pass names its user, so each of them is refused: %d order.", friends-1, len(ordered)))
}

// waitingCount is how many wait when Redis forgets.
const waitingCount = 60

// roomForgets has Redis lose the room while people wait. They ask again, the last one first.
func roomForgets(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, waitingCount)
	r := openRoom(t, setup, 1, 2, actor(lanePeople))
	tickets := make([]string, n)
	before, after := make([]int64, n), make([]int64, n)
	places := func(to []int64) {
		for i := range to {
			user := int64(n - i)
			var err error
			if setup.Program == flawed.FirstCome {
				to[user-1], err = r.queue.Place(t.Context(), user)
				r.Must(err)
			} else {
				to[user-1] = r.look(i, user, tickets[user-1], false).Position
			}
		}
	}
	for i := range tickets {
		if setup.Program == flawed.FirstCome {
			_, err := r.queue.Place(t.Context(), int64(i)+1)
			r.Must(err)
		} else {
			tickets[i] = r.enter(i, int64(i)+1)
		}
	}
	if setup.Program == "" {
		r.open()
	}
	places(before)
	r.step(lanePeople, finding.Notes, i18n.F("%d are told their places", n), false)
	r.forget(t.Context())
	forgotten := r.step(laneRedis, finding.Killed, i18n.F("restarts empty"), false)
	if setup.Program == "" { // other processes, which remember nothing
		for i := range r.instances {
			r.instances[i].Close()
			r.instances[i] = room.New(room.Config{
				Store: r.db.Rooms(), Redis: ledger.New(t.RedisClient(), r.keys, 16), Vouchers: r, Sales: r, Log: slog.New(slog.DiscardHandler),
			})
			t.Cleanup(r.instances[i].Close)
		}
		r.open()
	}
	places(after)
	turned := 0
	for i := range before {
		for j := range i {
			if (before[i] < before[j]) != (after[i] < after[j]) {
				turned++
			}
		}
	}
	r.step(lanePeople, finding.Notes, i18n.F("ask again, the last one first"), turned > 0)
	r.tell(finding.Inversions, turned,
		i18n.F("%d people know their places when Redis restarts empty, at %s. The queue begins anew, with those who ask first: buyer 1 had place %d and has %d, buyer %d had %d and has %d.",
			n, moment(forgotten), before[0], after[0], n, before[n-1], after[n-1]),
		i18n.F("%d people know their places when Redis restarts empty, at %s. The tickets are signed, and the database has the draw: buyer 1 had place %d and has %d, buyer %d had %d and has %d.",
			n, moment(forgotten), before[0], after[0], n, before[n-1], after[n-1]))
}
