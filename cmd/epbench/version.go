package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/table"
)

// release is set by the release build.
var release string

// version is the release's, or that of the module where `go install` fetched one.
var version = versionOf(debug.ReadBuildInfo())

// versionOf reads no version of a build from a checkout: it would change with each commit,
// and with it the first line of every run.
func versionOf(info *debug.BuildInfo, ok bool) string {
	switch {
	case release != "":
		return release
	case ok && info.Main.Sum != "": // fetched: a checkout has no checksum
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.1.0-dev"
}

func versionText() string {
	return fmt.Sprintf("epbench %s (table schema %d, %s, %s/%s)", version, table.Schema, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and the table schema it reads",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
