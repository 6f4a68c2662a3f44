package reentrant

// dueHeap orders leases by when they need the watchdog; see container/heap.
type dueHeap []*lease

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].watch.next.Before(h[j].watch.next) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].watch.index, h[j].watch.index = i, j
}

func (h *dueHeap) Push(x any) {
	g := x.(*lease)
	g.watch.index = len(*h)
	*h = append(*h, g)
}

func (h *dueHeap) Pop() any {
	old := *h
	last := len(old) - 1
	g := old[last]
	old[last] = nil
	*h = old[:last]
	return g
}
