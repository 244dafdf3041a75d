package ep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const maxInts = 100_000

// ParseInts reads a comma-separated list of terms. It returns the integers of all terms in rising order, without
// duplicates. A term has one of these forms:
//
//	7            the number 7
//	lo:hi        all integers from lo to hi
//	lo:hi:step   lo, lo+step, lo+2*step, ... up to hi
//	lo:hi:xN     lo, lo*N, lo*N*N, ... up to hi
func ParseInts(s string) ([]int, error) {
	var out []int
	for term := range strings.SplitSeq(s, ",") {
		vs, err := parseTerm(strings.TrimSpace(term))
		if err != nil {
			return nil, err
		}
		if out = append(out, vs...); len(out) > maxInts {
			return nil, fmt.Errorf("range %q: more than %d values", s, maxInts)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func parseTerm(term string) ([]int, error) {
	parts := strings.Split(term, ":")
	if len(parts) > 3 {
		return nil, malformed(term)
	}
	step, times := 1, false
	if len(parts) == 3 {
		parts[2], times = strings.CutPrefix(parts[2], "x")
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(p)
		if err != nil {
			return nil, malformed(term)
		}
		n[i] = v
	}
	switch len(parts) {
	case 1:
		return []int{n[0]}, nil
	case 3:
		step = n[2]
	}
	return expand(term, n[0], n[1], step, times)
}

func expand(term string, lo, hi, step int, times bool) ([]int, error) {
	switch {
	case hi < lo:
		return nil, fmt.Errorf("range %q: %d is below %d", term, hi, lo)
	case !times && step < 1:
		return nil, fmt.Errorf("range %q: the step must be at least 1", term)
	case times && (step < 2 || lo < 1):
		return nil, fmt.Errorf("range %q: xN needs N of at least 2 and a start of at least 1", term)
	}
	var out []int
	for v := lo; v <= hi; {
		if out = append(out, v); len(out) > maxInts {
			return nil, fmt.Errorf("range %q: more than %d values", term, maxInts)
		}
		if times {
			v *= step
		} else {
			v += step
		}
	}
	return out, nil
}

func malformed(term string) error {
	return fmt.Errorf("range %q: write a number, lo:hi, lo:hi:step or lo:hi:xN", term)
}
