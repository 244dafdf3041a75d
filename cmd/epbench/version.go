package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/table"
)

// version names the release. release.mk reads this line. It has no commit id: runs and tables record the version, and
// a commit id would make equal tables differ.
var version = "v0.1.0"

func versionText() string {
	return fmt.Sprintf("epbench %s (table schema %d, %s, %s/%s)", version, table.Schema, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the table schema",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
