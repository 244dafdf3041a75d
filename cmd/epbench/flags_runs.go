package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/workloads"
)

func loadRuns(cmd *cobra.Command, paths []string) ([]*reports.Loaded, error) {
	var out []*reports.Loaded
	for _, p := range paths {
		l, err := reports.Load(p)
		if err != nil {
			return nil, badInput(err)
		}
		for _, w := range l.Warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
		}
		out = append(out, l)
	}
	return out, nil
}

// notRecorded lists the flags that do not change what is measured.
var notRecorded = []string{"out", "resume", "retry", "dry-run", "profile", "trust-command", "json", "format", "export", "width"}

func commandLine(cmd *cobra.Command, name string, args ...string) []string {
	out := []string{"epbench", name}
	cmd.Flags().Visit(func(g *pflag.Flag) {
		if slices.Contains(notRecorded, g.Name) {
			return
		}
		values := []string{g.Value.String()}
		if list, ok := g.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			out = append(out, "--"+g.Name+"="+v)
		}
	})
	return append(out, args...)
}

type runFilter struct {
	ops     string
	tokens  string
	routing string
}

func (f *runFilter) bind(s *pflag.FlagSet) {
	s.StringVar(&f.ops, "op", "", "`OPS` operations to keep; default: all")
	s.StringVar(&f.tokens, "tokens", "", "`COUNTS` token counts to keep, a list or a range; default: all")
	s.StringVar(&f.routing, "routing", "", "`ROUTINGS` routings to keep; default: all")
}

func (f *runFilter) load(cmd *cobra.Command, paths []string) ([]*reports.Loaded, error) {
	runs, err := loadRuns(cmd, paths)
	for _, l := range runs {
		if err == nil {
			err = f.apply(l)
		}
	}
	return runs, err
}

func (f *runFilter) apply(l *reports.Loaded) error {
	if err := noGaps("--op", f.ops, "--routing", f.routing); err != nil {
		return err
	}
	tokens, err := f.counts()
	if err != nil {
		return err
	}
	ops, routings := splitList(f.ops), spelledOut(splitList(f.routing))
	if err := f.known(l, ops, routings, tokens); err != nil {
		return err
	}
	l.Keep(func(p ep.Problem, routing string) bool {
		return (ops == nil || slices.Contains(ops, string(p.Op))) && (tokens == nil || slices.Contains(tokens, p.Tokens)) &&
			(routings == nil || slices.Contains(routings, routing) || slices.Contains(routings, ep.RoutingLabel(routing)))
	})
	if len(l.Cases) == 0 {
		return usagef("--op, --tokens, --routing: %s has each of these values, but no case with all of them", l.Path)
	}
	return nil
}

// spelledOut adds the full name of each routing, such as hotrank:2.0 for hotrank, because runs record full names.
func spelledOut(routings []string) []string {
	out := slices.Clone(routings)
	for _, r := range routings {
		if d, err := workloads.Parse(r); err == nil && !slices.Contains(out, d.Spec()) {
			out = append(out, d.Spec())
		}
	}
	return out
}

// known returns an error if the run has none of a flag's values.
func (f *runFilter) known(l *reports.Loaded, ops, routings []string, tokens []int) error {
	var has [3][]string
	for _, c := range l.Cases {
		for i, v := range []string{string(c.Problem.Op), c.Routing, strconv.Itoa(c.Problem.Tokens)} {
			if !slices.Contains(has[i], v) {
				has[i] = append(has[i], v)
			}
		}
		if label := ep.RoutingLabel(c.Routing); label != c.Routing && slices.Contains(routings, label) {
			has[1] = append(has[1], label)
		}
	}
	var counts []string
	for _, n := range tokens {
		counts = append(counts, strconv.Itoa(n))
	}
	for i, asked := range [][]string{ops, routings, counts} {
		if len(asked) > 0 && !slices.ContainsFunc(asked, func(v string) bool { return slices.Contains(has[i], v) }) {
			flag := []string{"--op", "--routing", "--tokens"}[i]
			return usagef("%s: %s has no case with %s; it has %s", flag, l.Path, strings.Join(asked, " or "), strings.Join(has[i], ", "))
		}
	}
	return nil
}

func (f *runFilter) counts() ([]int, error) {
	if f.tokens == "" {
		return nil, nil
	}
	counts, err := ep.ParseInts(f.tokens)
	if err != nil {
		return nil, usagef("--tokens: %w", err)
	}
	return counts, nil
}

func outputDir(path string) error {
	if err := os.MkdirAll(filepath.Clean(path), 0o777); err != nil {
		return badInput(fmt.Errorf("--out: %w", err))
	}
	return nil
}
