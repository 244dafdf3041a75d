//go:build !race

package html_test

// raced says whether the race detector is on.
const raced = false
