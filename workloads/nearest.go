package workloads

// nearest is the known name with the least edit distance to name, the first of
// equals.
func nearest(name string, known []string) string {
	best, dist := "", -1
	if len(name) > 64 {
		name = name[:64]
	}
	for _, k := range known {
		if d := editDistance(name, k); dist < 0 || d < dist {
			best, dist = k, d
		}
	}
	return best
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
