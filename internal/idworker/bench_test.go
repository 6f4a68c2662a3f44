package idworker

import (
	"testing"
	"time"

	"seckill/internal/testkit"
)

// BenchmarkNextID measures the cost of an id, not the rate: it has enough machine ids to
// never wait for a tick.
func BenchmarkNextID(b *testing.B) {
	client := anyRedis(b)
	s, err := NewSonyflake(b.Context(), client, Config{KeyPrefix: testkit.KeyPrefix(b), Machines: MaxMachines})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(b.Context())
	for _, slot := range s.slots {
		for slot.ready() != nil {
			time.Sleep(time.Millisecond)
		}
	}
	b.Run("one goroutine", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.NextID(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.NextID(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

func BenchmarkRedisCounter(b *testing.B) {
	c := NewRedisCounter(anyRedis(b), CounterConfig{KeyPrefix: testkit.KeyPrefix(b)})
	for b.Loop() {
		if _, err := c.NextID(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
