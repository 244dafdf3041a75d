package main

import (
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports/chart"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/table/embedded"
	"github.com/epbench/epbench/workloads"
)

var flagValues = map[string]func() []string{
	"model":     presetNames,
	"op":        func() []string { return valueNames(ep.Ops()) },
	"dtype":     func() []string { return valueNames(ep.DTypes()) },
	"mode":      func() []string { return valueNames(ep.Modes()) },
	"layout":    layoutNames,
	"routing":   routingNames,
	"precision": func() []string { return []string{ep.Full.String(), ep.Reduced.String()} },
	"strategy":  search.StrategyNames,
	"backend":   backendNames,
	"table":     embeddedNames,
	"for":       planNames,
}

// offerValues makes the shell complete the values of a command's flags.
func offerValues(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values, known := flagValues[f.Name]
		switch {
		case f.Name == "format" || f.Name == "kind" && cmd.Name() == "plot":
			values, known = func() []string { return listed(f) }, true
		}
		if !known {
			return
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if f.Name == "table" || f.Name == "backend" {
			directive = cobra.ShellCompDirectiveDefault
		}
		// An error means that the flag has a completion already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return completed(values(), begun), directive
		})
	})
}

// completed completes the last item of a list: with the value "b2", the list "a,b" becomes "a,b2".
func completed(values []string, begun string) (out []string) {
	at := strings.LastIndex(begun, ",") + 1
	for _, v := range values {
		if strings.HasPrefix(v, begun[at:]) {
			out = append(out, begun[:at]+v)
		}
	}
	return out
}

// listed returns the values after the colon in a flag's usage. Without a colon, it returns the kinds that plot draws.
func listed(f *pflag.Flag) []string {
	if _, values, ok := strings.Cut(f.Usage, ": "); ok {
		return strings.Split(values, ", ")
	}
	var out []string
	for _, k := range chart.Kinds {
		out = append(out, k.Name)
	}
	return out
}

func valueNames[T ~string](values []T) (out []string) {
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

func presetNames() (out []string) {
	for _, p := range workloads.Presets() {
		out = append(out, p.Name)
	}
	return out
}

func layoutNames() (out []string) {
	for _, l := range ep.Layouts() {
		out = append(out, l.String())
	}
	return out
}

func routingNames() (out []string) {
	for _, k := range workloads.Kinds() {
		out = append(out, k.Name)
	}
	return out
}

func backendNames() (out []string) {
	for _, e := range backendTable {
		out = append(out, e.name)
	}
	return out
}

func embeddedNames() (out []string) {
	files, err := fs.Glob(embedded.FS(), "*.json")
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f, ".json"))
	}
	return out
}
