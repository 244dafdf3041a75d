//go:build !race

package html_test

// raced is true if the race detector is on.
const raced = false
