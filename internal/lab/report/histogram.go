package report

import (
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// Sizes of a histogram, in its own units.
const (
	histogramWidth  = 380.0
	histogramHeight = 140.0
	histogramTop    = 20.0
	histogramFoot   = 112.0
)

// histogram is the layout of a latency distribution.
type histogram struct {
	Width, Height, Foot px
	Bars                []histogramBar
	Ticks               []pictureTick
	Lines               []histogramLine
}

type histogramBar struct {
	X, Y, W, H px
	Full       string
}

// histogramLine is a percentile.
type histogramLine struct {
	X    px
	Text string
}

// newHistogram lays out a distribution, with bars of equal width. Without buckets it is nil.
func newHistogram(l *finding.Latency, language i18n.Language) *histogram {
	if l == nil || len(l.Buckets) == 0 {
		return nil
	}
	h := &histogram{Width: histogramWidth, Height: histogramHeight, Foot: histogramFoot}
	most := 1
	for _, b := range l.Buckets {
		most = max(most, b.Count)
	}
	left, right := edge, histogramWidth-edge
	step := (right - left) / float64(len(l.Buckets))
	last, below := -1e9, 0.0
	for i, b := range l.Buckets {
		x := left + float64(i)*step
		height := float64(b.Count) / float64(most) * (histogramFoot - histogramTop)
		if b.Count > 0 {
			height = max(height, 1.5)
		}
		h.Bars = append(h.Bars, histogramBar{
			X: px(x + 0.5), Y: px(histogramFoot - height), W: px(max(step-1, 0.5)), H: px(height),
			Full: i18n.F("%s from %s to %s ms", num(float64(b.Count)), num(below), num(b.UpToMS)).In(language),
		})
		below = b.UpToMS
		text := num(b.UpToMS)
		if i == 0 {
			text += " ms"
		}
		w := textWidth(text, smallSize)
		at := min(max(x+step-w/2, 2), histogramWidth-2-w)
		if at >= last+10 {
			h.Ticks = append(h.Ticks, pictureTick{X: px(at), Text: text})
			last = at + w
		}
	}
	last = -1e9
	for _, p := range []histogramLine{{Text: "p50"}, {Text: "p90"}, {Text: "p99"}} {
		value := map[string]float64{"p50": l.P50MS, "p90": l.P90MS, "p99": l.P99MS}[p.Text]
		x := left + step*position(l.Buckets, value)
		w := textWidth(p.Text, smallSize)
		if x-w/2 < last+4 {
			p.Text = "" // the numbers beside the picture show it
		} else {
			last = x + w/2
		}
		p.X = px(min(x, histogramWidth-2-w/2))
		h.Lines = append(h.Lines, p)
	}
	return h
}

// position returns where among the buckets a value lies.
func position(buckets []finding.Bucket, value float64) float64 {
	below := 0.0
	for i, b := range buckets {
		if value <= b.UpToMS {
			if b.UpToMS <= below {
				return float64(i)
			}
			return float64(i) + max(0, value-below)/(b.UpToMS-below)
		}
		below = b.UpToMS
	}
	return float64(len(buckets))
}
