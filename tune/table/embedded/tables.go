// Package embedded carries the tuned tables of the machines that were measured, compiled
// into the program. It is apart from package table so that a program with a table of its
// own carries no other.
package embedded

import (
	"embed"
	"io/fs"
)

//go:embed data
var data embed.FS

// FS holds the embedded tables as *.json at its root, for table.Locations.
func FS() fs.FS {
	sub, err := fs.Sub(data, "data")
	if err != nil {
		panic(err) // data is a valid path: the embed directive names it
	}
	return sub
}
