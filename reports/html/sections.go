package html

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

var sections = []struct {
	id, title string
	fill      func(*drawer)
}{
	{"gain", "What tuning gains", gain},
	{"launch", "What to launch", launch},
	{"latency", "Time against tokens", func(d *drawer) {
		d.draw("latency", d.runs...)
		d.draw("wire", d.runs...)
	}},
	{"libraries", "Libraries side by side", libraries},
	{"machine", "Machine", machine},
	{"workloads", "What each routing draws", workload},
	{"winners", "Winners", func(d *drawer) { d.table(reports.WinnersOf(d.main)) }},
	{"effects", "What each parameter costs", func(d *drawer) {
		d.tableOfRows(reports.EffectsTable(d.main.Cases))
		d.draw("heatmap", d.main)
	}},
	{"regret", "One config for every routing?", func(d *drawer) {
		d.tableOfRows(reports.RegretTable(d.main.Run))
		d.draw("regret", d.main)
	}},
	{"beside", "Time that a call adds to the product beside it (--beside)", func(d *drawer) {
		t, _ := reports.BesideTable(d.main.Run)
		d.tableOfRows(t)
	}},
	{"pareto", "Time against SMs", func(d *drawer) {
		d.draw("pareto", d.main)
		d.tableOfRows(reports.ParetoTable(d.main.Cases))
	}},
	{"space", "Search space", func(d *drawer) { d.tableOfRows(spaceTable(d.main.Run)) }},
	{"noise", "Noise", func(d *drawer) { d.draw("samples", d.main) }},
	{"failures", "Failed configs", failures},
	{"trials", "Every config that was timed", trials},
	{"method", "Method and command", method},
}

func (d *drawer) table(t reports.Table) { d.Tables = append(d.Tables, render(t)) }

func (d *drawer) tableOfRows(t reports.Table) {
	if len(t.Rows) > 0 {
		d.table(t)
	}
}

func gain(d *drawer) {
	if best := reports.Summarise(d.main.Run).Best; best != nil {
		d.drawFirst("gain", string(best.Problem.Op), d.runs...)
	}
	d.tableOfRows(reports.LargestGains(d.main.Run))
}

func libraries(d *drawer) {
	choices, err := reports.CompareLibraries(d.runs)
	if err != nil || !reports.SeveralLibraries(choices) {
		return // only one library, or several machines
	}
	d.table(reports.FastestTable(choices))
	d.table(reports.LibraryTable(choices))
	d.draw("libraries", d.runs...)
}

func launch(d *drawer) {
	if d.main.Table == nil && d.main.Run.Finished.IsZero() {
		d.Text = append(d.Text, "A sweep writes its table at the end. The winners so far are below.")
		return
	}
	if d.main.Table == nil || len(d.main.Table.Rows) == 0 {
		d.Text = append(d.Text, "The run wrote no table. Its winners are below.")
		return
	}
	d.Text = append(d.Text, "The tuned table of this run. A look-up takes the row of its op, routing class and token count. A caller that does not know its routing class takes the row for all classes.")
	d.table(rowTable(d.main))
}

func rowTable(l *reports.Loaded) reports.Table {
	out := reports.Table{Name: "rows", Title: "Tuned table " + l.Table.ID[:min(len(l.Table.ID), 12)], Columns: []reports.Column{
		reports.Words("op"), reports.Words("dtype"), reports.Words("class"), reports.Numbers("from", "tokens"), reports.Numbers("to", "tokens"),
		reports.Numbers("gain", "x"), reports.Numbers("low", "x"), reports.Numbers("high", "x"), reports.Numbers("median", "us"),
	}}
	out.Columns = append(append(out.Columns, reports.ConfigColumns()...), reports.Numbers("regret", "%"), reports.Numbers("error", "%"))
	for _, r := range l.Table.Rows {
		defaultConfig, e := defaultOf(l.Run, r), r.Evidence
		config := r.Config
		if r.Default {
			config = defaultConfig
		}
		gain := reports.GainCells(record.Interval{Mid: e.Gain, Low: e.GainLow, High: e.GainHigh})
		if e.GainLow > 1 {
			gain[0] = gain[0].Marked(reports.Good)
		}
		cells := []reports.Cell{reports.Str(reports.OpTitle(r.Key.Op, r.Key.Precision)), reports.Str(string(r.Key.Dispatch)), reports.Str(string(r.Key.Routing)),
			reports.Int(r.Lo), reports.Int(r.Hi), gain[0], gain[1], gain[2], reports.Micros(e.Median)}
		out.Add(append(append(cells, reports.ConfigCells(config, defaultConfig)...), reports.Percent(e.Regret), reports.Float(100*e.MaxErr, 3))...)
	}
	out.Note("gain: the default's time divided by the config's, at the row's token count with the smallest gain; low, high: its 95 % interval; regret: the largest loss of the config under the routings of the row; error: the largest error against the oracle, divided by the largest magnitude in the same output vector")
	return out
}

func defaultOf(run *record.Run, r table.Row) ep.Config {
	for _, s := range run.Searches {
		if table.KeyOf(s.Problem, r.Key.Routing) == r.Key {
			return s.Decision.Default
		}
	}
	return ep.Config{}
}

func machine(d *drawer) {
	m := d.main.Run.Machine
	list := []pair{
		{"backend", m.Backend}, {"name", m.Name}, {"GPUs", fmt.Sprint(m.GPUs)}, {"PCI id", m.PCIID}, {"architecture", m.Arch},
		{"SMs", fmt.Sprint(m.SMs)}, {"memory", fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30))}, {"link", m.Link}, {"driver", m.Driver}, {"CUDA", m.CUDA},
	}
	list = slices.DeleteFunc(list, func(p pair) bool { return p.Value == "" || p.Value == "0" })
	for _, clock := range slices.Sorted(maps.Keys(d.main.Run.Empty)) {
		list = append(list, pair{"empty kernel, " + clock, reports.Micros(d.main.Run.Empty[clock]).Text + " us"})
	}
	d.Lists = [][]pair{list}
}

func workload(d *drawer) {
	if len(d.main.Run.Workloads) > 0 {
		d.table(workloadTable(d.main))
	}
	d.draw("imbalance", d.runs...)
	d.Text = append(d.Text, d.missing...)
}

// shownStats maps JSON names of statistics to columns.
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
	t := reports.Table{Name: "workloads", Title: "Load of experts and ranks", Columns: append(p.Columns, reports.Words("class"), reports.Numbers("wire", "kB"))}
	for _, s := range shownStats {
		t.Columns = append(t.Columns, s.column)
	}
	for _, c := range cases {
		row := append(p.Cells(c), reports.Str(string(c.Load.Class)), reports.Figures(float64(c.Load.BytesWire)/1e3))
		for _, s := range shownStats {
			v, ok := c.Load.Stats[s.name]
			if !ok {
				v = math.NaN()
			}
			row = append(row, reports.Float(v, 2))
		}
		t.Add(row...)
	}
	t.Note(p.Shared, "wire: bytes of the busiest rank, if each token is sent once to each rank that needs it")
	return t
}

func spaceTable(run *record.Run) reports.Table {
	t := reports.Table{Name: "space", Title: "Points of the space, and the rules that refused some", Columns: []reports.Column{
		reports.Words("kernel"), reports.Words("problem"), reports.Numbers("points", ""), reports.Numbers("legal", ""), reports.Words("refused by"),
	}}
	for _, i := range run.Spaces {
		var rules []string
		for _, r := range i.Rejected {
			rules = append(rules, fmt.Sprintf("%s: %d", r.Rule, r.Count))
		}
		t.Add(reports.Str(i.Kernel), reports.Str(i.Problem), reports.Int(i.Points), reports.Int(i.Legal), reports.Str(strings.Join(rules, "; ")))
	}
	return t
}

const maxFailures = 500

func failures(d *drawer) {
	t := reports.FailedTable(d.main.Cases, maxFailures)
	if d.tableOfRows(t); len(t.Rows) == 0 {
		d.Text = append(d.Text, "Nothing failed.")
	}
}

const maxTrials = 5000

func trials(d *drawer) {
	p := reports.ColumnsFor(d.main.Cases)
	t := reports.Table{Name: "trials", Title: "Configs with times, fastest first", Columns: append(append(p.Columns, reports.ConfigColumns()...),
		reports.Words("role"), reports.Numbers("median", "us"), reports.Numbers("p10", "us"), reports.Numbers("p90", "us"), reports.Numbers("rounds", ""))}
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
			t.Add(append(append(p.Cells(c), c.Cells(e)...), reports.Str(string(e.Role)), reports.Micros(e.Median.Mid), reports.Micros(e.P(0.1)), reports.Micros(e.P(0.9)), reports.Int(len(e.Times)))...)
		}
	}
	t.Note(p.Shared)
	t.Note(reports.DefaultNotes(d.main.Cases)...)
	if left > 0 {
		t.Note(fmt.Sprintf("The table has the %d fastest configs of each case; %d more are in %s.", perCase, left, record.TrialsFile))
	}
	d.table(t)
}

func method(d *drawer) {
	r := d.main.Run
	d.Text = []string{
		"A sample is one collective round. All ranks start together, and each rank is timed on its device. The sample is the slowest rank's time. A time in this report is the median of samples, with a distribution-free 95 % interval.",
		"Every round measures several candidates and the default, in random order. Candidates are compared by ratios within rounds, so that drift cancels. Every answer is compared with the oracle before and after timing. The best candidate is measured against the default once more in fresh rounds; times and gains come from the fresh rounds.",
	}
	list := []pair{{"command", strings.Join(r.Command, " ")}, {"version", r.Tool}, {"strategy", r.Strategy}, {"policy", r.Policy}, {"seed", fmt.Sprint(r.Seed)},
		{"space", r.Space}, {"kernels", string(r.ABI)}, {"machine key", r.Machine.Key()}, {"started", r.Started.UTC().Format("2006-01-02 15:04:05 MST")}}
	if r.Finished.IsZero() {
		list = append(list, pair{"finished", "no: the sweep was interrupted or still runs"})
	} else {
		list = append(list, pair{"took", r.Finished.Sub(r.Started).Round(1e9).String()})
	}
	d.Lists = [][]pair{list}
}
