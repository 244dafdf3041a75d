package reports

import (
	"fmt"
	"io"
	"strings"
)

// DerivedTables are the tables of a run that people read: winners, effects of
// parameters, regret matrices, Pareto fronts, the wire floor and what failed.
// Empty ones are left out. maxFailures bounds the last; 0 means all. link is
// in GB/s, see FloorTable; 0 takes the machine's.
func DerivedTables(l *Loaded, link float64, maxFailures int) []Table {
	if link == 0 {
		link = Wire(l.Run.Machine)
	}
	all := []Table{Winners(l), EffectsTable(l.Cases)}
	for _, r := range Regrets(l.Cases) {
		all = append(all, RegretTable(r))
	}
	all = append(all, ParetoTable(l.Cases), FloorTable(l, link), QuarantineTable(l.Cases, maxFailures))
	var out []Table
	for _, t := range all {
		if len(t.Rows) > 0 || len(t.Warnings) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// summaryFailures bounds the quarantine list of summary.md.
const summaryFailures = 50

// WriteSummary writes summary.md: the headline, then the derived tables.
func WriteSummary(w io.Writer, l *Loaded) error {
	r := l.Run
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", l.Name(), Summarise(l))
	fmt.Fprintf(&b, "Machine: %s. Kernels: %s. Command: `%s`. Seed %d.\n\n", r.Machine.Key(), r.ABI, strings.ReplaceAll(strings.Join(r.Command, " "), "`", "'"), r.Seed)
	for _, warning := range append(append([]string{}, l.Warnings...), r.Warnings...) {
		fmt.Fprintf(&b, "**Warning:** %s\n\n", warning)
	}
	if err := WriteMarkdown(&b, DerivedTables(l, 0, summaryFailures)...); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}
