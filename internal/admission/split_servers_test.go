package admission

import (
	"testing"

	"seckill/internal/testkit"
)

func TestManyBucketsSellExactlyAll(t *testing.T) {
	t.Parallel()
	testkit.Servers(t)
	sellsExactlyAll(t, []split{
		{"sixty-four buckets", 64, 100, anyBucket},
		{"sixty-four buckets and one piece", 64, 1, anyBucket},
		{"sixty-four buckets, all buyers in the last one", 64, 40, func(b int) bool { return b == 63 }},
	})
}
