package conform

import "fmt"

// Part reads "I/N" and returns every N-th case, beginning with case I.
func Part[T any](cases []T, part string) ([]T, error) {
	var i, n int
	_, err := fmt.Sscanf(part, "%d/%d", &i, &n)
	if err != nil || part != fmt.Sprintf("%d/%d", i, n) || i < 1 || i > n || n > len(cases) {
		return nil, fmt.Errorf("%q is not i/n with i from 1 to n and n at most %d, the number of cases", part, len(cases))
	}
	var mine []T
	for ; i <= len(cases); i += n {
		mine = append(mine, cases[i-1])
	}
	return mine, nil
}
