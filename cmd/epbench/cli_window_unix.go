//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// windowWidth returns the width of a terminal in columns, or 0 if f is no terminal.
func windowWidth(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
