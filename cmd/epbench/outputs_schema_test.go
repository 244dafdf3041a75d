package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	validate "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/testfile"
)

// outputSchema describes the output of --json. For example, `table show` prints a table named
// `rows`, and the definition of "table show rows" describes a row of it. Later versions keep required columns.
const outputSchema = "docs/schema/output.v1.json"

// jsonSamples holds commands whose JSON the schema must describe. They run in order.
var jsonSamples = []string{
	"sweep --backend cpu --op dispatch --tokens 1,16 --routing uniform,zipf:1.0 --budget 20 --sessions 3 -o one",
	"sweep --backend cpu --op dispatch --tokens 1,16 --routing uniform,zipf:1.0 --budget 20 -o two",
	"bench --backend cpu --op dispatch --tokens 16 --table one",
	"verify --backend cpu --only op=dispatch --quick",
	"start",
	"report testdata/runs/h200x2-deepseek-v3 --no-html --only all",
	"report testdata/runs/cpu-sweep --no-html --only all",
	"report testdata/peers/h100x2/nccl testdata/peers/h100x2/deepep --no-html --only all",
	"report testdata/runs/h200x2-deepseek-v3 --no-html",
	"compare testdata/runs/cpu-sweep testdata/runs/cpu-again",
	"replay testdata/runs/cpu-sweep --replays 3",
	"replay testdata/runs/cpu-sweep --replays 3 --each",
	"replay claims --replays 5",
	"replay sessions one",
	"replay score tune/search/exchange/testdata/pnpoly-RTX_3090_T4.json --strategy auto,race --replays 2",
	"import reports/peers/testdata/deepep-low-latency.txt --ranks 8 --hidden 7168 --experts 256 --topk 8 --tokens 128 -o deepep",
	"model fit testdata/runs/h200x2-deepseek-v3 testdata/runs/h200x4-deepseek-v3 -o model.yaml --worst 2",
	"model plan testdata/models/h200.yaml --ranks 8,16",
	"model compare testdata/models/h200.yaml",
	"table show --table testdata/runs/h200x2-deepseek-v3",
	"table show --embedded",
	"table lookup --table testdata/runs/h200x2-deepseek-v3 --tokens 1,128",
	"table lookup --table testdata/runs/cpu-sweep",
	"table explain --table testdata/runs/cpu-sweep",
	"table diff testdata/tables/cpu-demo.json testdata/tables/cpu-demo.json",
	"table merge testdata/tables/cpu-demo.json testdata/tables/cpu-demo.json -o merged.json",
	"table lint --table testdata/tables/cpu-demo.json",
	"table lint --table testdata/runs/h200x4-deepseek-v3",
	"table verify --table one --rows 2 -o receipt.json",
	"table fallback testdata/runs/h200x2-deepseek-v3 testdata/runs/h200x2-deepseek-v3 --fields routing -o wide.json",
	"table choose testdata/peers/h100x2/nccl testdata/peers/h100x2/deepep",
	"table widen one receipt.json -o widened.json",
	"machine --backend cpu",
	"backends",
	"presets",
	"presets deepseek-v3",
	"workload --routing uniform,zipf:1.0 --tokens 16",
	"workload --list",
	"workload import testdata/traces/sglang_stat.pt --layer 2 -o layer2.csv --ranks 4",
	"workload fit layer2.csv --topk 4",
	"workload import testdata/traces/sglang_per_token.pt --layer 2 -o layer2.npz",
	"workload balance layer2.npz --redundant 8 --ranks 4 -o slots.npz",
}

var notSampled = map[string]string{
	"interleave": "it needs two backends; testdata/script tests it, and its tables are those of report",
	"pack":       "it needs NVRTC",
	"pack show":  "it needs a pack, which needs NVRTC",
}

type printed struct {
	command string
	Name    string           `json:"name"`
	Rows    []map[string]any `json:"rows"`
}

// TestJSONFitsItsSchema: the schema describes every command's JSON. EPBENCH_UPDATE=1 adds to the schema and removes
// nothing: users rely on it.
func TestJSONFitsItsSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("runs real sweeps; left out with -short")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	inLinkedFolder(t, root)
	useSteadyBackend(t, func() {})
	var all []printed
	sampled := map[string]bool{}
	for _, line := range jsonSamples {
		for _, o := range runJSON(t, line) {
			sampled[o.command] = true
			all = append(all, o)
		}
	}
	path := filepath.Join(root, outputSchema)
	if os.Getenv("EPBENCH_UPDATE") == "1" {
		updateSchema(t, path, all)
	}
	everyCommandIsSampled(t, sampled)
	judgeOutputs(t, path, all)
}

// runJSON returns a command's tables. An object becomes a table with one row.
func runJSON(t *testing.T, line string) []printed {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := append(shellWords(line), "--json")
	if code := run(t.Context(), args, &stdout, &stderr); code != exitDone && code != exitUndecided && code != exitWrong {
		t.Errorf("%s: exit %d: %s", line, code, stderr.String())
		return nil
	}
	cmd, _, err := newRoot(&bytes.Buffer{}, &bytes.Buffer{}).Find(args)
	if err != nil {
		t.Fatal(err)
	}
	command := plainPath(cmd)
	var tables []printed
	var object map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &tables); err != nil {
		if err := json.Unmarshal(stdout.Bytes(), &object); err != nil {
			t.Errorf("%s: %v\n%s", line, err, stdout.String())
		}
		tables = []printed{{Name: "object", Rows: []map[string]any{object}}}
	}
	if len(tables) == 0 {
		t.Errorf("%s prints no table", line)
	}
	for i := range tables {
		tables[i].command = command
	}
	return tables
}

func everyCommandIsSampled(t *testing.T, sampled map[string]bool) {
	t.Helper()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		if path := plainPath(cmd); cmd.LocalFlags().Lookup("json") != nil && !sampled[path] && notSampled[path] == "" {
			t.Errorf("no sample shows the JSON of epbench %s: add one to jsonSamples", path)
		}
	}
	visit(newRoot(&bytes.Buffer{}, &bytes.Buffer{}))
}

// judgeOutputs refuses tables and columns that the schema does not describe.
func judgeOutputs(t *testing.T, path string, all []printed) {
	t.Helper()
	defs := readSchema(t, path)["$defs"].(map[string]any)
	for _, o := range all {
		name := o.command + " " + o.Name
		def, known := defs[name].(map[string]any)
		if !known {
			t.Errorf("%s does not describe %q; EPBENCH_UPDATE=1 adds it", outputSchema, name)
			continue
		}
		schema, err := validate.NewCompiler().Compile(path + "#/$defs/" + strings.ReplaceAll(name, " ", "%20"))
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range o.Rows {
			if err := schema.Validate(any(row)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for column := range row {
				if !describes(def, column) {
					t.Errorf("%s: column %s is not described; EPBENCH_UPDATE=1 adds it", name, column)
				}
			}
		}
	}
}

func describes(def map[string]any, column string) bool {
	if _, named := def["properties"].(map[string]any)[column]; named {
		return true
	}
	patterns, _ := def["patternProperties"].(map[string]any)
	for p := range patterns {
		if regexp.MustCompile(p).MatchString(column) {
			return true
		}
	}
	return false
}

func readSchema(t *testing.T, path string) map[string]any {
	t.Helper()
	return testfile.JSON[map[string]any](t, testfile.Read(t, path))
}

func updateSchema(t *testing.T, path string, all []printed) {
	t.Helper()
	doc := readSchema(t, path)
	defs := doc["$defs"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(byName(all))) {
		def, known := defs[name].(map[string]any)
		if !known {
			def = map[string]any{"type": "object", "properties": map[string]any{}, "required": []any{}}
			defs[name] = def
		}
		addColumns(def, byName(all)[name], !known)
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, path, append(b, '\n'))
}

func byName(all []printed) map[string][]map[string]any {
	out := map[string][]map[string]any{}
	for _, o := range all {
		name := o.command + " " + o.Name
		out[name] = append(out[name], o.Rows...)
	}
	return out
}

// addColumns adds columns to a definition. In a new table, a column becomes required if every row has it.
func addColumns(def map[string]any, rows []map[string]any, isNew bool) {
	properties := def["properties"].(map[string]any)
	had := map[string]int{}
	for _, row := range rows {
		for column, value := range row {
			had[column]++
			p, _ := properties[column].(map[string]any)
			if p == nil && describes(def, column) {
				continue
			}
			if p == nil {
				p = map[string]any{"type": []any{}}
				properties[column] = p
			}
			if types := p["type"].([]any); !slices.Contains(types, any(jsonType(value))) {
				p["type"] = sortedTypes(append(types, jsonType(value)))
			}
		}
	}
	if isNew {
		for _, column := range slices.Sorted(maps.Keys(had)) {
			if had[column] == len(rows) {
				def["required"] = append(def["required"].([]any), column)
			}
		}
	}
}

func sortedTypes(types []any) []any {
	slices.SortFunc(types, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return types
}

func jsonType(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}
