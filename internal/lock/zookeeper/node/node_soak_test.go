package node_test

import (
	"testing"

	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/zkstore"
	"seckill/internal/testkit"
)

func TestSoakConformance(t *testing.T) {
	locktest.Soak(t, zkstore.Factory(mechanism(), zkstore.Session), promises())
}

func TestSoakCountsLeaseFromGrant(t *testing.T) {
	testkit.Soak(t)
	zkstore.CountsLeaseFromGrant(t, mechanism())
}
