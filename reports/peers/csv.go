package peers

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// csvFormat reads CSV files with the columns csvFields, or with columns mapped to them.
var csvFormat = Format{
	Name:   "csv",
	Doc:    "CSV with columns " + strings.Join(csvFields, ", ") + ", or with other columns that --map names",
	Checks: "if a row has a time, a bandwidth and a definition, the time and the bandwidth agree",
	Detect: func(head []byte) bool {
		line, _, _ := bytes.Cut(head, []byte("\n"))
		has := func(name string) bool { return bytes.Contains(line, []byte(name)) }
		return bytes.Contains(line, []byte(",")) && has("tokens") && (has("us") || has("gbps"))
	},
	Read: readCSV,
}

// csvFields lists the known columns. A file needs the column "us" or "gbps".
var csvFields = []string{"kernel", "op", "dtype", "mode", "routing", "ranks", "nodes", "hidden", "experts", "topk", "tokens", "us", "gbps", "definition", "clock", "sms"}

func readCSV(data []byte, g Given) ([]Figure, []string, error) {
	rows, err := tableRows(data)
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		return nil, nil, fmt.Errorf("the file has a header and no rows")
	}
	for column, field := range g.Columns {
		if !slices.Contains(csvFields, field) {
			return nil, nil, fmt.Errorf("map: unknown field %q, use one of %s", field, strings.Join(csvFields, ", "))
		}
		if _, ok := rows[0][column]; !ok {
			return nil, nil, fmt.Errorf("map: the file has no column %q; it has %s", column,
				strings.Join(slices.Sorted(maps.Keys(rows[0])), ", "))
		}
	}
	facts := newFacts(g)
	var out []Figure
	for i, row := range rows {
		for column, field := range g.Columns {
			row[field] = row[column]
		}
		f, err := csvRow(row, facts)
		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", i+1, err)
		}
		out = append(out, f)
	}
	return out, facts.warnings, nil
}

func csvRow(row map[string]string, facts *facts) (Figure, error) {
	g, err := facts.with(said{"ranks", "ranks", row["ranks"]}, said{"nodes", "nodes", row["nodes"]}, said{"hidden", "hidden", row["hidden"]}, said{"experts", "experts", row["experts"]},
		said{"topk", "topk", row["topk"]}, said{"tokens", "tokens", row["tokens"]})
	if err == nil {
		err = g.require("ranks", "hidden", "experts", "topk", "tokens")
	}
	if err == nil {
		err = g.setNodes(facts, 0, 0)
	}
	if err != nil {
		return Figure{}, err
	}
	p, err := csvProblem(row, g)
	if err != nil {
		return Figure{}, err
	}
	f := Figure{Kernel: cmp.Or(row["kernel"], "csv"), Problem: p, Routing: row["routing"], Clock: cmp.Or(row["clock"], "wall"), Values: map[string]ep.Value{}}
	if row["sms"] != "" {
		f.Values["sms"] = ep.Value(row["sms"])
	}
	return f, f.setTime(row, g)
}

func csvProblem(row map[string]string, g Given) (ep.Problem, error) {
	op, wrongOp := ep.ParseOp(cmp.Or(row["op"], "dispatch"))
	dtype, wrongDType := ep.ParseDType(cmp.Or(row["dtype"], "bf16"))
	mode, wrongMode := ep.ParseMode(cmp.Or(row["mode"], string(ep.Eager)))
	p := g.problem(op, dtype)
	p.Mode = mode
	return p, cmp.Or(wrongOp, wrongDType, wrongMode)
}

func (f *Figure) setTime(row map[string]string, g Given) error {
	if row["us"] != "" {
		us, err := number(row["us"])
		if err != nil {
			return fmt.Errorf("us: %w", err)
		}
		f.Seconds, f.Note = us*1e-6, "time as given in a CSV file"
		return f.checkSpeed(row, g)
	}
	gbps, err := number(row["gbps"])
	if err != nil {
		return fmt.Errorf("us and gbps: %w", err)
	}
	name := cmp.Or(row["definition"], g.Definition)
	if name == "" {
		return fmt.Errorf("gbps: the definition of this bandwidth is unknown; give --definition or a column definition")
	}
	d, err := FindDefinition(name)
	if err != nil {
		return err
	}
	f.Seconds = d.Seconds(f.Problem, gbps)
	f.Note = fmt.Sprintf("%g GB/s converted to a time by the %s definition: %s", gbps, d.Name, d.Doc)
	return nil
}

// csvSlack is the largest relative difference between column "us" and the time computed from column "gbps". Files often
// round both.
const csvSlack = 0.03

func (f *Figure) checkSpeed(row map[string]string, g Given) error {
	name := cmp.Or(row["definition"], g.Definition)
	if row["gbps"] == "" || name == "" {
		return nil
	}
	d, err := FindDefinition(name)
	if err != nil {
		return err
	}
	gbps, err := number(row["gbps"])
	if err != nil {
		return fmt.Errorf("gbps: %w", err)
	}
	if other := d.Seconds(f.Problem, gbps); !agrees(other, f.Seconds, csvSlack) {
		return fmt.Errorf("us is %g, but %g GB/s by the %s definition give %.4g us", f.Seconds*1e6, gbps, d.Name, other*1e6)
	}
	return nil
}
