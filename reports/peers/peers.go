// Package peers reads what the benchmarks of other libraries print and turns it
// into records of ours, which plots and comparisons show beside a run.
package peers

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// MaxInput bounds what an importer reads.
const MaxInput = 64 << 20

// Given is what the user says about a file. What the file itself says goes
// before it; 0 and "" mean not given.
type Given struct {
	Ranks, Nodes, Hidden, Experts, TopK, Tokens int
	Routing                                     string            // canonical spec; uniform when empty
	Label                                       string            // kernel name shown for the figures, instead of the format's own
	Columns                                     map[string]string // CSV only: our name by the file's column
	Definition                                  string            // how a bandwidth was computed, see Definitions
}

// Format is one kind of file.
type Format struct {
	Name string
	Doc  string
	// Detect reports whether the start of a file looks like this format.
	Detect func(head []byte) bool
	// Read returns the figures of a file, with warnings about lines that were
	// left out. An error means that nothing is usable.
	Read func(data []byte, g Given) ([]Figure, []string, error)
}

// Formats lists every importer, in the order in which Detect is asked.
var Formats = []Format{baseline, mori, nccl, ncclJSON, aiconfigurator, deepEP, csvFormat}

// Figure is one published number, as a time.
type Figure struct {
	Kernel  string              // "deepep-ll"
	Values  map[string]ep.Value // its launch parameters, as far as known
	Problem ep.Problem
	Seconds float64 // of one call
	Clock   string  // span, event or wall
	Note    string  // the number as published, and how it became a time
}

// Read parses in by the named format; "auto" or "" asks each in turn. Results
// have the role peer and one round of one rank.
func Read(in io.Reader, format string, g Given) (results []record.Result, used string, warnings []string, err error) {
	data, err := io.ReadAll(io.LimitReader(in, MaxInput+1))
	if err != nil {
		return nil, "", nil, err
	}
	if len(data) > MaxInput {
		return nil, "", nil, fmt.Errorf("larger than %d MiB", MaxInput>>20)
	}
	if len(g.Columns) > 0 && (format == "" || format == "auto") {
		format = csvFormat.Name // only a CSV has columns to map
	}
	f, err := find(format, data)
	if err != nil {
		return nil, "", nil, err
	}
	figures, warnings, err := f.Read(data, g)
	if err != nil {
		return nil, f.Name, nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	if len(figures) == 0 {
		return nil, f.Name, nil, fmt.Errorf("%s: no figures found", f.Name)
	}
	for i, fig := range figures {
		r, err := fig.result(i, g)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("%s left out: %v", fig.Kernel, err))
			continue
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil, f.Name, nil, fmt.Errorf("%s: %s", f.Name, warnings[0])
	}
	return results, f.Name, append(dedupe(warnings), doubled(results)...), nil
}

// doubled warns where a file has several figures of one problem and config: what made them
// differ is lost, and reports take them for rounds of one thing.
func doubled(results []record.Result) (warnings []string) {
	seen, n, first := map[string]bool{}, 0, ""
	for _, r := range results {
		key := r.Problem.Key() + " " + r.Config.Key()
		if seen[key] {
			n++
			first = cmp.Or(first, fmt.Sprintf("%s of %s with %s", r.Config.Key(), r.Problem.Op, ep.Tokens(r.Problem.Tokens)))
		}
		seen[key] = true
	}
	if n > 0 {
		warnings = append(warnings, fmt.Sprintf("%d figures are of a problem and config that another one is of, the first %s; reports show their mean. Import them one by one with a --label each", n, first))
	}
	return warnings
}

func find(name string, data []byte) (Format, error) {
	if name == "" || name == "auto" {
		head := data[:min(len(data), 64<<10)]
		for _, f := range Formats {
			if f.Detect(head) {
				return f, nil
			}
		}
		return Format{}, fmt.Errorf("no known format looks like this; name one of %s", names())
	}
	for _, f := range Formats {
		if f.Name == name {
			return f, nil
		}
	}
	return Format{}, fmt.Errorf("unknown format %q, use one of auto, %s", name, names())
}

func names() string {
	var out []string
	for _, f := range Formats {
		out = append(out, f.Name)
	}
	return strings.Join(out, ", ")
}

// result turns a figure into a record, checking the problem on the way.
func (f Figure) result(i int, g Given) (record.Result, error) {
	if err := f.Problem.Validate(); err != nil {
		return record.Result{}, err
	}
	if !(f.Seconds > 0) || f.Seconds > 3600 {
		return record.Result{}, fmt.Errorf("%g seconds is no time of one call", f.Seconds)
	}
	config := ep.Config{Kernel: cmp.Or(g.Label, f.Kernel), Values: f.Values}
	if config.Values == nil {
		config.Values = map[string]ep.Value{}
	}
	if _, err := ep.ParseConfig(config.Key()); err != nil {
		return record.Result{}, err
	}
	return record.Result{
		Schema: record.Schema, Seq: i, Problem: f.Problem, Routing: cmp.Or(g.Routing, "uniform"), Config: config,
		Cost: ep.Cost{SMs: config.Int("sms")}, Role: record.Peer, Stage: record.StageImport, Status: ep.OK, Clock: f.Clock, Fold: 1,
		Seconds: [][]float64{{f.Seconds}}, Warnings: []string{f.Note},
	}, nil
}

// problem fills a problem from what is given. The mode is eager, which an
// importer may change.
func (g Given) problem(op ep.Op, dtype ep.DType) ep.Problem {
	return ep.Problem{
		Op: op, Mode: ep.Eager, Ranks: g.Ranks, Nodes: max(g.Nodes, 1), Hidden: g.Hidden,
		Experts: g.Experts, TopK: g.TopK, Tokens: g.Tokens, MaxTokens: g.Tokens,
		Dispatch: dtype, Combine: ep.BF16,
	}
}

// require names the flags that are missing.
func (g Given) require(fields ...string) error {
	has := map[string]int{"ranks": g.Ranks, "hidden": g.Hidden, "experts": g.Experts, "topk": g.TopK, "tokens": g.Tokens}
	var missing []string
	for _, f := range fields {
		if has[f] == 0 {
			missing = append(missing, "--"+f)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the file does not say everything about its problem; give %s", strings.Join(missing, ", "))
	}
	return nil
}

// count is a number in a file and the field that it sets.
type count struct {
	name, text string
	to         *int
}

// setCounts parses the counts whose text is not empty.
func setCounts(counts ...count) error {
	for _, c := range counts {
		if c.text == "" {
			continue
		}
		v, err := strconv.Atoi(c.text)
		if err != nil {
			return fmt.Errorf("%s: %.20q is no count", c.name, c.text)
		}
		*c.to = v
	}
	return nil
}

func dedupe(warnings []string) []string {
	var out []string
	for _, w := range warnings {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// firstByte is the first byte that is not white space, 0 when there is none.
func firstByte(b []byte) byte {
	if b = bytes.TrimSpace(b); len(b) > 0 {
		return b[0]
	}
	return 0
}
