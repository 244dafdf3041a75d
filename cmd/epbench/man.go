//go:build man

package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The hidden command man DIR writes a man page for every command. It is built
// for releases only (-tags man), since nobody else needs its libraries.
func init() {
	extra = append(extra, func(root *cobra.Command) *cobra.Command {
		return &cobra.Command{Use: "man DIR", Hidden: true, Args: exactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			date := time.Unix(0, 0) // the same bytes every day
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "epbench " + version, Manual: "epbench", Date: &date}, args[0])
		}}
	})
}
