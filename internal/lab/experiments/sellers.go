package experiments

import (
	"errors"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// sellers are clients that sell a voucher under its lock.
type sellers struct {
	*clients
	sale *testbed.Sale
}

// newSellers puts a voucher with that stock on sale.
func newSellers(t *lab.Trial, setup lab.Setup, stock int64) *sellers {
	s := &sellers{clients: newClients(t, setup), sale: t.Sale(setup.Policy, stock, nil)}
	s.key = s.sale.Key(1)
	return s
}

// start starts a client that has the servers of its lock, and the database.
func (s *sellers) start(name string, adjust ...func(*lockclient.Config)) *lockclient.Client {
	database := func(config *lockclient.Config) { config.MySQLDSN = s.MariaDB().DSN }
	return s.clients.start(name, append([]func(*lockclient.Config){s.useLockServers, database}, adjust...)...)
}

// buy makes a buyer wait for the lock, read the stock, work, buy, and release the lock.
// Its program does not check whether it still has the lock.
func (s *sellers) buy(at *lockclient.Client, who string, user int64, work time.Duration) lockclient.Grant {
	g, err := s.acquire(at, s.request(who))
	s.must(err)
	_, err = at.Sell(s.Context(), lockclient.Sell{
		Voucher: s.sale.Voucher, User: user, Lease: g.Lease, IgnoreLoss: true,
		Mode: s.setup.Policy.Stock, Unique: true, Pause: work,
	})
	if !isRefusal(err) {
		s.must(err)
	}
	_ = at.Release(s.Context(), g.Lease) // the event log records its result
	return g
}

// isRefusal reports whether the database refused a sale: that is an outcome, and no failure.
func isRefusal(err error) bool {
	return errors.Is(err, order.ErrStale) || errors.Is(err, order.ErrConflict) || errors.Is(err, voucher.ErrSoldOut)
}

// fullEvidence adds what the database holds.
func (s *sellers) fullEvidence() judge.Evidence {
	ev, sold := s.clients.fullEvidence(), s.sale.Evidence()
	ev.Audit, ev.Rows, ev.Database = sold.Audit, sold.Rows, sold.Database
	return ev
}
