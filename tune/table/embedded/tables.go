// Package embedded holds the tuned tables of measured machines, compiled into the program.
package embedded

import (
	"embed"
	"io/fs"
)

//go:embed data
var data embed.FS

// FS returns a file system with the tables as *.json at its root. Set table.Locations.Embedded to it.
func FS() fs.FS {
	sub, err := fs.Sub(data, "data")
	if err != nil {
		panic(err) // cannot happen: the embed directive names this path
	}
	return sub
}
