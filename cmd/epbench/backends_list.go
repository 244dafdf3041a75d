package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/reports"
)

func newBackends() *cobra.Command {
	var out tableFlags
	cmd := &cobra.Command{
		Use:   "backends",
		Short: "List the backends, with the reason if one does not work here",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := reports.Table{Name: "backends", Columns: []reports.Column{
				reports.Words("backend"), reports.Words("usable"), reports.Words("machine").Dropped(1),
				reports.Words("kernels"), reports.Words("note"),
			}}
			for _, e := range backendTable {
				machine, names, note := describe(cmd, e)
				usable := reports.Bool(note == "")
				if e.onRequest {
					usable.Text = "on request"
				}
				t.Add(reports.Str(e.name), usable, reports.Str(machine), reports.Str(names), reports.Str(cmp.Or(note, e.doc)))
			}
			return out.print(cmd, t)
		},
	}
	out.bind(cmd)
	return cmd
}

// describe returns the names of a backend's machine and kernels, or why the backend does not work here.
func describe(cmd *cobra.Command, e backendEntry) (machine, names, missing string) {
	if missing = e.missing(); missing != "" || e.onRequest {
		return "", "", missing
	}
	b, err := e.open(cmd.Context(), "")
	if err != nil {
		return "", "", err.Error()
	}
	defer b.Close()
	return b.Machine().Name, kernelNames(b.Kernels()), ""
}

func kernelNames(all []kernels.Kernel) string {
	var out []string
	for _, k := range all {
		out = append(out, k.Name)
	}
	return strings.Join(out, " ")
}
