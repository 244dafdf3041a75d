//go:build man

package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// init adds the hidden command man DIR to release builds (-tags man).
func init() {
	extra = append(extra, func(root *cobra.Command) *cobra.Command {
		return &cobra.Command{Use: "man DIR", Hidden: true, Args: exactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			date := time.Unix(0, 0) // today's date would change the pages daily
			root.DisableAutoGenTag = true
			showPlaceholders(root)
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "epbench " + version, Manual: "epbench", Date: &date}, args[0])
		}}
	})
}

func showPlaceholders(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { *f = *shown(f) })
	for _, c := range cmd.Commands() {
		showPlaceholders(c)
	}
}
