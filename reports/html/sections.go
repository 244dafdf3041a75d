package html

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// sections are the parts of the page in their order; one that has nothing to
// say is left out.
var sections = []func(*drawer) section{
	ship, latency, machine, workload, winners, effects, regret, sms, space, noise, failures, trials, method,
}

// ship is what a reader came for.
func ship(d *drawer) section {
	s := section{ID: "ship", Title: "What to ship"}
	if d.main.Table != nil && len(d.main.Table.Rows) > 0 {
		s.Text = append(s.Text, "The tuned table of this run, as a lookup answers. Gain is the time of the default over that of the row, with its 95 % interval.")
		s.Tables = append(s.Tables, render(shippedTable(d.main.Table)))
		return s
	}
	s.Text = append(s.Text, "The run wrote no table; these are its winners case by case.")
	s.Tables = append(s.Tables, render(brief(d.main)))
	return s
}

// shippedTable prints the rows of a tuned table.
func shippedTable(t *table.Table) reports.Table {
	out := reports.Table{Name: "shipped", Title: "Tuned table " + short(t.ID), Columns: []reports.Column{
		reports.Words("op"), reports.Words("format"), reports.Words("routing"), reports.Numbers("from", "tokens"), reports.Numbers("to", "tokens"),
		reports.Words("config"), reports.Numbers("median", "us"), reports.Numbers("gain", "x"), reports.Numbers("at least", "x"), reports.Numbers("at most", "x"),
		reports.Numbers("error", "%"),
	}}
	for _, r := range t.Rows {
		label := r.Config.Key()
		if r.Default {
			label = "default"
		}
		e := r.Evidence
		out.Add(reports.Str(reports.OpTitle(r.Key.Op, r.Key.Precision)), reports.Str(string(r.Key.Dispatch)), reports.Str(string(r.Key.Routing)), reports.Int(r.Lo), reports.Int(r.Hi),
			reports.Str(label), reports.Micros(e.Median), gain(e), reports.Float(e.GainLow, 3), reports.Float(e.GainHigh, 3),
			reports.Float(100*e.MaxErr, 3))
	}
	return out
}

func gain(e table.Evidence) reports.Cell {
	c := reports.Float(e.Gain, 3)
	if e.GainLow > 1 {
		return c.Marked(reports.Good)
	}
	return c
}

func short(id string) string { return id[:min(len(id), 12)] }

// brief is the winners without their finer columns.
func brief(l *reports.Loaded) reports.Table {
	t := reports.WinnersOf(l)
	keep := func(c reports.Column) bool { return c.Drop == 0 || strings.HasPrefix(c.Name, "at ") }
	out := reports.Table{Name: "ship", Title: "Winners", Notes: t.Notes, Warnings: t.Warnings}
	for _, c := range t.Columns {
		if keep(c) {
			out.Columns = append(out.Columns, c)
		}
	}
	for _, row := range t.Rows {
		var cells []reports.Cell
		for i, c := range row {
			if keep(t.Columns[i]) {
				cells = append(cells, c)
			}
		}
		out.Add(cells...)
	}
	return out
}

func latency(d *drawer) section {
	s := section{ID: "latency", Title: "Time against tokens"}
	d.draw(&s, "latency", d.runs...)
	d.draw(&s, "floor", d.runs...)
	return s
}

func machine(d *drawer) section {
	m := d.main.Run.Machine
	list := pairs{
		{"backend", m.Backend}, {"name", m.Name}, {"GPUs", fmt.Sprint(m.GPUs)}, {"PCI id", m.PCIID}, {"architecture", m.Arch},
		{"SMs", fmt.Sprint(m.SMs)}, {"memory", fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30))}, {"link", m.Link}, {"driver", m.Driver}, {"CUDA", m.CUDA},
	}
	list = slices.DeleteFunc(list, func(p struct{ Name, Value string }) bool { return p.Value == "" || p.Value == "0" })
	for _, clock := range slices.Sorted(maps.Keys(d.main.Run.Empty)) {
		list = append(list, struct{ Name, Value string }{"empty kernel, " + clock, reports.Micros(d.main.Run.Empty[clock]).Text + " us"})
	}
	return section{ID: "machine", Title: "Machine", Lists: []pairs{list}}
}

// workload lists what the routings drew.
func workload(d *drawer) section {
	s := section{ID: "workloads", Title: "Workloads and their imbalance"}
	if len(d.main.Run.Workloads) > 0 {
		s.Tables = append(s.Tables, render(workloadTable(d.main)))
	}
	d.draw(&s, "imbalance", d.runs...)
	s.Text = append(s.Text, d.missing...)
	return s
}

// shownStats are the statistics worth a column, by their JSON names.
var shownStats = []struct {
	name   string
	column reports.Column
}{
	{"gini", reports.Numbers("Gini", "")}, {"max_mean_expert", reports.Numbers("busiest expert", "x mean")},
	{"max_mean_rank", reports.Numbers("busiest rank", "x mean")}, {"distinct_ranks", reports.Numbers("ranks a token reaches", "")},
	{"local_share", reports.Numbers("stays local", "share")}, {"effective_experts", reports.Numbers("effective experts", "")},
}

func workloadTable(l *reports.Loaded) reports.Table {
	var cases []*reports.Case
	seen := map[string]bool{}
	for _, c := range l.Cases {
		if k := fmt.Sprint(c.Routing, " ", c.Problem.Tokens, " ", c.Problem.Op); c.Load != nil && !seen[k] {
			seen[k] = true
			cases = append(cases, c)
		}
	}
	p := reports.ColumnsFor(cases)
	t := reports.Table{Name: "workloads", Title: "What each routing draws", Columns: append(p.Columns, reports.Words("class"), reports.Numbers("wire", "kB"))}
	for _, s := range shownStats {
		t.Columns = append(t.Columns, s.column)
	}
	for _, c := range cases {
		row := append(p.Cells(c), reports.Str(string(c.Load.Class)), reports.Float(float64(c.Load.BytesWire)/1e3, 1))
		for _, s := range shownStats {
			v, ok := c.Load.Stats[s.name]
			if !ok {
				v = math.NaN()
			}
			row = append(row, reports.Float(v, 2))
		}
		t.Add(row...)
	}
	t.Note(p.Shared, "wire: bytes of the busiest rank, each token once per rank it goes to.")
	return t
}

func winners(d *drawer) section {
	s := section{ID: "winners", Title: "Winners case by case"}
	s.Tables = append(s.Tables, render(reports.WinnersOf(d.main)))
	return s
}

func effects(d *drawer) section {
	s := section{ID: "effects", Title: "What each parameter does"}
	if t := reports.EffectsTable(d.main.Cases); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, render(t))
	}
	d.draw(&s, "heatmap", d.main)
	return s
}

func regret(d *drawer) section {
	s := section{ID: "regret", Title: "One choice for every routing?"}
	all := d.main.Run.Regrets
	for i, r := range all {
		if i == perKind {
			break
		}
		s.Tables = append(s.Tables, render(reports.RegretTable(r)))
	}
	if len(all) > 0 {
		d.draw(&s, "regret", d.main)
	}
	return s
}

func sms(d *drawer) section {
	s := section{ID: "pareto", Title: "Time against SMs"}
	d.draw(&s, "pareto", d.main)
	if t := reports.ParetoTable(d.main.Cases); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, render(t))
	}
	return s
}

// space says how the search space was cut down.
func space(d *drawer) section {
	s := section{ID: "space", Title: "Search space"}
	if len(d.main.Run.Spaces) == 0 {
		return s
	}
	t := reports.Table{Name: "space", Title: "Points of the space and why some were refused", Columns: []reports.Column{
		reports.Words("kernel"), reports.Words("problem"), reports.Numbers("points", ""), reports.Numbers("legal", ""), reports.Words("refused by"),
	}}
	for _, i := range d.main.Run.Spaces {
		var rules []string
		for _, r := range i.Rejected {
			rules = append(rules, fmt.Sprintf("%s: %d", r.Rule, r.Count))
		}
		t.Add(reports.Str(i.Kernel), reports.Str(i.Problem), reports.Int(i.Points), reports.Int(i.Legal), reports.Str(strings.Join(rules, "; ")))
	}
	s.Tables = append(s.Tables, render(t))
	return s
}

func noise(d *drawer) section {
	s := section{ID: "noise", Title: "How noisy it was"}
	d.draw(&s, "samples", d.main)
	return s
}

// maxFailures is how many failures the page lists.
const maxFailures = 500

func failures(d *drawer) section {
	s := section{ID: "failures", Title: "Failures and their reasons"}
	t := reports.QuarantineTable(d.main.Cases, maxFailures)
	if len(t.Rows) == 0 {
		s.Text = append(s.Text, "Nothing failed.")
		return s
	}
	s.Tables = append(s.Tables, render(t))
	return s
}

// maxTrials bounds the table of everything tried, which is most of the page.
const maxTrials = 5000

func trials(d *drawer) section {
	s := section{ID: "trials", Title: "Everything that was timed"}
	p := reports.ColumnsFor(d.main.Cases)
	t := reports.Table{Name: "trials", Title: "Every configuration that has times", Columns: append(p.Columns,
		reports.Words("config"), reports.Words("role"), reports.Numbers("median", "us"), reports.Numbers("p10", "us"), reports.Numbers("p90", "us"), reports.Numbers("rounds", ""))}
	perCase, left := maxTrials/max(1, len(d.main.Cases)), 0
	for _, c := range d.main.Cases {
		for i, e := range c.Entries {
			if !e.OK() {
				continue
			}
			if i >= perCase {
				left++
				continue
			}
			t.Add(append(p.Cells(c), c.Short(e), reports.Str(string(e.Role)), reports.Micros(e.Median.Mid), reports.Micros(e.P(0.1)), reports.Micros(e.P(0.9)), reports.Int(len(e.Times)))...)
		}
	}
	t.Note(p.Shared)
	t.Note(reports.DefaultNotes(d.main.Cases)...)
	if left > 0 {
		t.Note(fmt.Sprintf("The %d fastest of each case are here; %d more are in %s.", perCase, left, record.TrialsFile))
	}
	s.Tables = append(s.Tables, render(t))
	return s
}

// method says what the numbers mean and how to get them again.
func method(d *drawer) section {
	r := d.main.Run
	s := section{ID: "method", Title: "Method, and how to reproduce", Text: []string{
		"A sample is one collective round: all ranks start aligned, each times itself on its device, and the round counts as long as its slowest rank. A time is the median over rounds, with a distribution-free 95 % interval.",
		"Candidates are measured side by side in random order, the default in every round, and compared by ratios within a round, so that drift cancels. What was chosen is measured again on fresh rounds. Every candidate is checked against an oracle before its times count.",
	}}
	list := pairs{{"command", strings.Join(r.Command, " ")}, {"version", r.Tool}, {"strategy", r.Strategy}, {"policy", r.Policy}, {"seed", fmt.Sprint(r.Seed)},
		{"space", r.Space}, {"kernels", r.ABI}, {"machine key", r.Machine.Key()}, {"started", r.Started.UTC().Format("2006-01-02 15:04:05 MST")}}
	if r.Finished.IsZero() {
		list = append(list, struct{ Name, Value string }{"finished", "no: the sweep was interrupted or still runs"})
	} else {
		list = append(list, struct{ Name, Value string }{"took", r.Finished.Sub(r.Started).Round(1e9).String()})
	}
	s.Lists = []pairs{list}
	return s
}
