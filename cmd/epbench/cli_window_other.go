//go:build !unix

package main

import "os"

// windowSize returns zeros, which mean unknown.
func windowSize(*os.File) (columns, rows int) { return 0, 0 }
