package main

import "github.com/spf13/cobra"

func newTableVerify() *cobra.Command { return &cobra.Command{Use: "verify"} }
