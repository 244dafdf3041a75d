package ep

import "strings"

// Nearest is the known name with the least edit distance to name, the first of
// equals, and "" where even that one is a different word: where more than
// half of its letters would have to change. A name that begins with the other
// is near.
func Nearest(name string, known []string) string {
	best, dist := "", -1
	if len(name) > 64 {
		name = name[:64]
	}
	for _, k := range known {
		if len(name) > 1 && strings.HasPrefix(k, name) {
			return k
		}
		if d := editDistance(name, k); dist < 0 || d < dist {
			best, dist = k, d
		}
	}
	if 2*dist > max(len(name), len(best)) {
		return ""
	}
	return best
}

// DidYouMean asks back after an unknown name: "; did you mean zipf?", or
// otherwise where no known name is near.
func DidYouMean(name string, known []string, otherwise string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return otherwise
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
