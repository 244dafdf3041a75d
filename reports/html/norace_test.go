//go:build !race

package html_test

const raced = false
