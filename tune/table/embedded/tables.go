// Package embedded holds the tuned tables of measured machines, compiled into the program. It
// is separate from package table, so that a program with its own table does not link these tables.
package embedded

import (
	"embed"
	"io/fs"
)

//go:embed data
var data embed.FS

// FS returns a file system with the embedded tables as *.json at its root, for
// table.Locations.
func FS() fs.FS {
	sub, err := fs.Sub(data, "data")
	if err != nil {
		panic(err) // data is a valid path: the embed directive names it
	}
	return sub
}
