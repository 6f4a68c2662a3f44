package report

import (
	"testing"

	"pgregory.net/rapid"
)

// With any number of marks, no text covers another one or a symbol, or exceeds the edges.
func TestPlaceKeepsTextsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lo, hi = 100.0, 900.0
		labels := make([]*label, rapid.IntRange(0, 25).Draw(t, "labels"))
		for i := range labels {
			labels[i] = &label{
				moment: rapid.Float64Range(lo, hi).Draw(t, "moment"),
				width:  rapid.Float64Range(0, hi-lo).Draw(t, "width"),
				symbol: rapid.SampledFrom([]float64{0, symbolSize, ringSize}).Draw(t, "symbol"),
			}
		}
		rows := place(labels, lo, hi)
		for i, f := range labels {
			if f.row < 0 || f.row >= rows {
				t.Fatalf("row %d of %d", f.row, rows)
			}
			if f.left < lo-0.001 || f.left+f.width > hi+0.001 || f.at < lo || f.at > hi {
				t.Fatalf("%+v is not between %v and %v", *f, lo, hi)
			}
			for _, o := range labels[i+1:] {
				if o.row == f.row && o.left < f.left+f.width && f.left < o.left+o.width {
					t.Fatalf("%+v lies on %+v", *f, *o)
				}
				if o.at < f.at {
					t.Fatalf("%+v comes before %+v", *o, *f)
				}
			}
			for _, o := range labels {
				if f.row == 0 && o.symbol > 0 && f.left < o.at+o.symbol/2 && o.at-o.symbol/2 < f.left+f.width {
					t.Fatalf("%+v lies on the symbol of %+v", *f, *o)
				}
			}
		}
	})
}
