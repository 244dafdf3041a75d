package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/table"
)

// version is set by the release build.
var version = "0.1.0-dev"

func versionText() string {
	return fmt.Sprintf("epbench %s (table schema %d, %s, %s/%s)", version, table.Schema, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the table schema it reads",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
