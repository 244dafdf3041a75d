package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
)

func newPackShow() *cobra.Command {
	var out tableFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print what a pack launches for each token count, and why",
		Example: "  epbench pack show demo.pack\n" +
			"  epbench pack show --all demo.pack\n" +
			"  epbench pack show demo.pack --json",
		Args: exactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := pack.ReadFile(args[0])
			if err != nil {
				return badInput(err)
			}
			return out.print(cmd, packFacts(p), packAnswers(p, all))
		},
	}
	out.bind(cmd)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.BoolVar(&all, "all", false, "also print the look-ups for dispatch alone and for combine alone")
	})
	return cmd
}

func packFacts(p *pack.Pack) reports.Table {
	t, q := newFacts("pack", ""), p.Shape()
	n, bytes := p.Variants()
	precision := "full"
	if p.Reduced {
		precision = "full and reduced"
	}
	t.add("digest", "%s", p.Digest)
	t.add("kernels", "%s", strings.ReplaceAll(string(p.ABI.Part(launchedBy(p)...)), ",", ", "))
	t.add("for", "%s (%s), %d SMs", p.Machine.Name, p.Arch, p.Machine.SMs)
	t.add("shape", "hidden %d, %d experts, top-%d, %d ranks, at most %d tokens a rank", q.Hidden, q.Experts, q.TopK, q.Ranks, q.MaxTokens)
	if n := p.Network; n != nil {
		t.add("nodes", "%d, of %d ranks each; NVSHMEM %s, %s of symmetric memory a rank with one call in flight", q.Nodes, q.Ranks/q.Nodes, n.Version, mebibytes(n.HeapBytes))
	}
	t.add("precision", "%s", precision)
	t.add("tables", "%s", strings.Trim(fmt.Sprintf("%.12s", p.TableIDs), "[]"))
	t.add("file bytes", "%d", len(p.Data))
	t.add("device binaries", "%d of %d bytes", n, bytes)
	for _, d := range p.DTypes {
		t.add("device memory of "+string(d), "%s for each call in flight of each rank", mebibytes(p.HeapBytes(1, d)))
	}
	if len(p.DTypes) > 1 {
		t.add("device memory of all", "%s for each call in flight of each rank", mebibytes(p.HeapBytes(1)))
	}
	for _, a := range p.Areas() {
		if a.Bytes > 0 {
			t.add("of which for "+a.For, "%s", mebibytes(int64(a.Bytes)))
		}
	}
	t.Notes = p.Notes
	return t.Table
}

// launchedBy lists the kernels that a pack launches. These are only some of the kernels in p.ABI.
func launchedBy(p *pack.Pack) []string {
	var out []string
	for _, l := range p.Lookups {
		for _, r := range l.Runs {
			for _, key := range []string{r.Dispatch, r.Combine, r.Elsewhere} {
				name, _, _ := strings.Cut(key, ":")
				if name != "" && !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

func packAnswers(p *pack.Pack, all bool) reports.Table {
	t := reports.Table{Name: "answers", Columns: []reports.Column{
		reports.Words("dtype"), reports.Words("precision"), reports.Words("for"), reports.Words("routing"),
		reports.Numbers("from", ""), reports.Numbers("to", ""), reports.Words("dispatch id"), reports.Words("combine id"),
		reports.Words("certified").Dropped(9), reports.Words("dispatch").Dropped(10).WithIDs("dispatch id"), reports.Words("combine").Dropped(10).WithIDs("combine id"),
		reports.Words("why").Dropped(11).Keyed(),
	}}
	for _, l := range p.Lookups {
		if !all && l.Purpose != ep.Pair {
			continue
		}
		precision := "full"
		if l.Reduced {
			precision = "reduced"
		}
		for _, r := range l.Runs {
			t.Add(reports.Str(string(l.DType)), reports.Str(precision), reports.Str(string(l.Purpose)), reports.Str(string(l.Class)),
				reports.Int(r.Lo), reports.Int(r.Hi), idCell(r.Dispatch), idCell(r.Combine), certifiedCell(r), reports.Str(r.Dispatch), reports.Str(r.Combine), reports.Str(r.Text))
		}
	}
	return t
}

// certifiedCell returns an empty cell if no row of a tuned table gave the answer.
func certifiedCell(a pack.Answer) reports.Cell {
	if a.Uncovered {
		return reports.None()
	}
	return reports.Bool(a.Certified)
}

// idCell returns the id of a config. `key` is the config's full spelling.
func idCell(key string) reports.Cell {
	c, err := ep.ParseConfig(key)
	if err != nil {
		return reports.None()
	}
	return reports.Str(c.ID())
}
