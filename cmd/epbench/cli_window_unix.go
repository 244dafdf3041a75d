//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// windowWidth asks the terminal, 0 when f is none.
func windowWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
