//go:build man

package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// init adds the hidden command man DIR, which writes a man page for every command. Only release builds
// (-tags man) contain it, because it imports libraries that nothing else needs.
func init() {
	extra = append(extra, func(root *cobra.Command) *cobra.Command {
		return &cobra.Command{Use: "man DIR", Hidden: true, Args: exactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			date := time.Unix(0, 0) // with the current date the pages would change every day
			root.DisableAutoGenTag = true
			showPlaceholders(root)
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "epbench " + version, Manual: "epbench", Date: &date}, args[0])
		}}
	})
}

// showPlaceholders sets the placeholders of the flags of a command and of its subcommands.
func showPlaceholders(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { *f = *shown(f) })
	for _, c := range cmd.Commands() {
		showPlaceholders(c)
	}
}
