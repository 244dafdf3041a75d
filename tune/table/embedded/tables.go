// Package tables carries the tuned tables of machines that were measured,
// compiled into the program. It is apart from tune/plan so that a runtime
// that brings its own table carries no other.
package embedded

import (
	"embed"
	"io/fs"
)

//go:embed data
var data embed.FS

// FS holds the embedded tables as *.json at its root, for plan.Locations.
func FS() fs.FS {
	sub, err := fs.Sub(data, "data")
	if err != nil {
		panic(err) // data is a valid path: the embed directive names it
	}
	return sub
}
