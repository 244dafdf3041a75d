// Package embedded holds the tuned tables of measured machines, compiled into the program.
package embedded

import (
	"embed"
	"io/fs"
)

//go:embed data
var data embed.FS

// FS returns the tables as *.json at its root, for table.Locations.
func FS() fs.FS {
	sub, err := fs.Sub(data, "data")
	if err != nil {
		panic(err) // the embed directive names this path
	}
	return sub
}
