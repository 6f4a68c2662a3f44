package watchdog

// dueHeap orders leases by when they need the watchdog; see container/heap.
type dueHeap[T any] []*Lease[T]

func (h dueHeap[T]) Len() int           { return len(h) }
func (h dueHeap[T]) Less(i, j int) bool { return h[i].next.Before(h[j].next) }

func (h dueHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap[T]) Push(x any) {
	g := x.(*Lease[T])
	g.index = len(*h)
	*h = append(*h, g)
}

func (h *dueHeap[T]) Pop() any {
	old := *h
	last := len(old) - 1
	g := old[last]
	old[last] = nil
	*h = old[:last]
	return g
}
