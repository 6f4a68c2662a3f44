package main

import (
	"fmt"
	"strings"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// Every mechanism that the project knows by name is wired to its servers: a voucher
// is sold under it by two processes, in lab mode and, where it is called safe, with
// the lock taken for the whole voucher and waited for. A mechanism that is added to
// the catalogue and wired nowhere fails here.
func TestEveryLockSells(t *testing.T) {
	var nodes []string
	for range 3 {
		nodes = append(nodes, testkit.NewRedis(t).Addr())
	}
	s := sharedServers(t).with(
		"SECKILL_LOCK_REDIS_ADDRS="+strings.Join(nodes, ","),
		"SECKILL_ZOOKEEPER_ADDRS="+testkit.ZooKeeper(t).Addr(),
	)
	a, b := startProcess(t, s), startProcess(t, s)
	for _, m := range lock.Catalogue() {
		t.Run(m.Name, func(t *testing.T) {
			policy := fmt.Sprintf(`{"lock":%q}`, m.Name)
			if m.Safe {
				policy = fmt.Sprintf(`{"lock":%q,"scope":"voucher","lock_wait_ms":20000}`, m.Name)
			}
			shop := openShop(t, 10, policy, a, b)
			codes, orders := shop.rush(20, 1, nil)
			shop.mustBeRight(0, codes, orders)
			if m.Safe && (codes["created"] != 10 || codes["sold_out"] != 10) {
				t.Errorf("20 buyers of 10 vouchers were told %v", codes)
			}
			if codes["created"] == 0 {
				t.Errorf("nobody could buy: %v", codes)
			}
		})
	}
}
