package locktest

import "seckill/internal/simulate"

// Network carries the connections of one process and fails on demand.
type Network = simulate.Link

// NewNetwork returns a network without faults.
func NewNetwork() *Network { return simulate.NewLink() }

// Losses of a reply, see [simulate.Link.LoseReply].
const (
	Reset   = simulate.Reset
	Silence = simulate.Silence
	Deliver = simulate.Deliver
)
