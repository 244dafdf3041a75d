package workloads

// ExpertCounts returns the number of rows that each expert receives from one rank, [experts].
func (w *Workload) ExpertCounts(source int) []int64 {
	n := make([]int64, w.Problem.Experts)
	w.selections(source, func(_ int, e int32) { n[e]++ })
	return n
}

// TotalCounts returns the number of rows that each expert receives from all ranks, [experts].
func (w *Workload) TotalCounts() []int64 {
	n := make([]int64, w.Problem.Experts)
	for rank := range w.Ranks {
		w.selections(rank, func(_ int, e int32) { n[e]++ })
	}
	return n
}

func (w *Workload) selections(rank int, f func(token int, expert int32)) {
	lo, hi := int32(0), int32(w.Problem.Experts)
	if w.Problem.SkipA2A {
		n := int32(w.Problem.LocalExperts())
		lo, hi = int32(rank)*n, int32(rank+1)*n
	}
	k := w.Problem.TopK
	rt := w.Ranks[rank]
	for t := range rt.Tokens {
		for _, e := range rt.Experts[t*k : (t+1)*k] {
			if e >= lo && e < hi {
				f(t, e)
			}
		}
	}
}

func rankSums(counts []int64, ranks int) []int64 {
	out := make([]int64, ranks)
	local := len(counts) / ranks
	for e, n := range counts {
		out[e/local] += n
	}
	return out
}
