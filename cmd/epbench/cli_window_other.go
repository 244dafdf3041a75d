//go:build !unix

package main

import "os"

// windowSize returns 0 for both, which means unknown.
func windowSize(*os.File) (columns, rows int) { return 0, 0 }
