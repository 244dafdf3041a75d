package conform

import "math/rand/v2"

// tuple holds values of up to three axes; unused entries are -1.
type tuple struct{ axes, values [3]int }

// covering returns points of a matrix. For every choice of `strength` axes (1 to 3), the points contain all combinations
// of values that `ok` allows. The algorithm is greedy, like AETG (Cohen, Dalal, Fredman, Patton 1997).
func covering(sizes []int, strength int, ok func(point []int) bool) [][]int {
	rng := rand.New(rand.NewPCG(1, uint64(strength)))
	sets := axisSets(len(sizes), strength)
	todo := tuples(sizes, sets)
	missing := make(map[tuple]bool, len(todo))
	for _, t := range todo {
		missing[t] = true
	}
	var out [][]int
	for _, t := range todo {
		if !missing[t] {
			continue
		}
		best, most := []int(nil), 0
		for range 24 {
			p := complete(rng, sizes, t)
			if n := gain(p, sets, missing); n > most && ok(p) {
				best, most = p, n
			}
		}
		if best == nil {
			continue
		}
		out = append(out, best)
		for _, set := range sets {
			delete(missing, tupleOf(best, set))
		}
	}
	return out
}

func axisSets(n, k int) [][]int {
	if k == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for last := k - 1; last < n; last++ {
		for _, head := range axisSets(last, k-1) {
			out = append(out, append(head[:len(head):len(head)], last))
		}
	}
	return out
}

func tuples(sizes []int, sets [][]int) []tuple {
	var out []tuple
	for _, set := range sets {
		total := 1
		for _, axis := range set {
			total *= sizes[axis]
		}
		point := make([]int, len(sizes))
		for i := range total {
			for _, axis := range set {
				point[axis], i = i%sizes[axis], i/sizes[axis]
			}
			out = append(out, tupleOf(point, set))
		}
	}
	return out
}

func tupleOf(point, set []int) tuple {
	t := tuple{axes: [3]int{-1, -1, -1}, values: [3]int{-1, -1, -1}}
	for i, axis := range set {
		t.axes[i], t.values[i] = axis, point[axis]
	}
	return t
}

func complete(rng *rand.Rand, sizes []int, t tuple) []int {
	p := make([]int, len(sizes))
	for axis, n := range sizes {
		p[axis] = rng.IntN(n)
	}
	for i, axis := range t.axes {
		if axis >= 0 {
			p[axis] = t.values[i]
		}
	}
	return p
}

func gain(point []int, sets [][]int, missing map[tuple]bool) int {
	n := 0
	for _, set := range sets {
		if missing[tupleOf(point, set)] {
			n++
		}
	}
	return n
}
