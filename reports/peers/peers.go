// Package peers converts benchmark output of other libraries to epbench's records. A peer is another library that
// moves the same tokens.
package peers

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// MaxInput bounds the bytes that an importer reads.
const MaxInput = 64 << 20

// Format is one kind of file.
type Format struct {
	Name string
	Doc  string
	// Checks lists the equations between a file's numbers that Read checks, such as size/time = algbw.
	Checks string
	// Detect reports whether the start of a file looks like this format.
	Detect func(head []byte) bool
	// Read returns the figures of a file, and a warning for each omitted line. Contradicting figures are an error.
	Read func(data []byte, g Given) ([]Figure, []string, error)
}

// Formats lists every format. Read tries Detect in this order.
var Formats = []Format{collectiveX, baseline, mori, mooncake, nccl, ncclJSON, rccl, moonEP, aiconfigurator, deepEPV2, hybridEP, deepEP, csvFormat}

// Figure is one result from a file, converted to a time.
type Figure struct {
	Kernel  string              // such as deepep-ll
	Values  map[string]ep.Value // launch parameters in the file
	Problem ep.Problem
	Seconds float64 // of one call
	Clock   string  // span, event or wall
	Routing string  // "" if the file has none
	Note    string  // the file's figure and its conversion
}

// Read parses a file in the named format. It detects the format if the name is "auto" or "".
func Read(in io.Reader, format string, g Given) (results []record.Result, used string, warnings []string, err error) {
	data, err := readBounded(in)
	if err != nil {
		return nil, "", nil, err
	}
	if len(g.Columns) > 0 && (format == "" || format == "auto") {
		format = csvFormat.Name
	}
	data = withoutPrefixes(data)
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
	return results, f.Name, append(dedupe(warnings), duplicateWarnings(results)...), nil
}

const lineBytes = 300

func readBounded(in io.Reader) ([]byte, error) {
	data, err := bounded.New(MaxInput).ReadAll("the file", in, MaxInput)
	if err != nil {
		return nil, err
	}
	cost := bounded.New(int64(len(data)))
	if c := firstByte(data); c == '{' || c == '[' {
		return data, cost.JSON("values", data)
	}
	return data, cost.Array("lines", int64(bytes.Count(data, []byte("\n"))), lineBytes)
}

func duplicateWarnings(results []record.Result) (warnings []string) {
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
		warnings = append(warnings, fmt.Sprintf("%d figures have the same problem and config as an earlier figure, the first is %s; reports show only the mean. Import each with its own --label", n, first))
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
		return Format{}, fmt.Errorf("the file has none of the known formats; name its format, one of %s", names())
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

func (f Figure) result(i int, g Given) (record.Result, error) {
	if err := f.Problem.Validate(); err != nil {
		return record.Result{}, err
	}
	if !(f.Seconds > 0) || f.Seconds > 3600 {
		return record.Result{}, fmt.Errorf("%g seconds cannot be the time of one call", f.Seconds)
	}
	config := ep.Config{Kernel: cmp.Or(g.Label, f.Kernel), Values: f.Values}
	if config.Values == nil {
		config.Values = map[string]ep.Value{}
	}
	if _, err := ep.ParseConfig(config.Key()); err != nil {
		return record.Result{}, err
	}
	return record.Result{
		Schema: record.Schema, Seq: i, Problem: f.Problem, Routing: cmp.Or(g.Routing, f.Routing, "uniform"), Config: config,
		Cost: ep.Cost{SMs: config.Int("sms")}, Role: record.Peer, Stage: record.StageImport, Status: ep.OK, Clock: f.Clock, Fold: 1,
		Seconds: [][]float64{{f.Seconds}}, Warnings: []string{f.Note},
	}, nil
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

func firstByte(b []byte) byte {
	if b = bytes.TrimSpace(b); len(b) > 0 {
		return b[0]
	}
	return 0
}
