package ep

import "strings"

// Nearest returns the known name that is most similar to `name`, or "" if none is similar.
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
	if 2*dist > max(len(name), len(best)) || dist >= min(len(name), len(best)) {
		return ""
	}
	return best
}

// DidYouMean returns the end of an error text, such as "; did you mean zipf?". Without a similar name it returns
// `otherwise`.
func DidYouMean(name string, known []string, otherwise string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return otherwise
}

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
