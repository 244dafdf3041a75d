// Package export writes tuned tables in C, Go, Python and CSV. The exported look-ups give the same
// answers as package table.
package export

import (
	"bytes"
	"embed"
	"fmt"
	"go/token"
	"slices"
	"strings"
	"text/template"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// File is one file of an export.
type File struct {
	Name string // without directory
	Data []byte
}

// Exporter writes one format. The function Files takes a sealed table and a file name without extension.
type Exporter struct {
	Name  string // value of --format
	Ext   string // extension of the main file
	Doc   string
	Files func(t *table.Table, base string) ([]File, error)
}

// Exporters lists every format.
var Exporters = []Exporter{
	{"go", ".go", "a Go file that embeds the table and looks up answers with package table", exportGo},
	{"c", ".h", "a C99 header: static tables and inline look-ups, no dependencies", exportC},
	{"python", ".py", "a Python 3.8 module, standard library only", exportPython},
	{"csv", ".csv", "one line for each row, for spreadsheets", exportCSV},
}

// Find returns the exporter with this name.
func Find(name string) (Exporter, error) {
	var known []string
	for _, e := range Exporters {
		if e.Name == name {
			return e, nil
		}
		known = append(known, e.Name)
	}
	return Exporter{}, fmt.Errorf("unknown export format %q, use one of %s", name, strings.Join(known, ", "))
}

//go:embed templates
var templates embed.FS

type view struct {
	Name       string
	Upper      string
	Table      *table.Table
	MachineKey string
	ABI        ep.ABI
	Fallback   []int // indices in Fields
	Routing    int   // index in Fields
	Precision  int   // index in Fields
	Minimax    int   // index in Classes
	Even       int   // index in Classes
	Op         int   // index in Fields
	Combine    int   // index in RowOps
	Dispatch   int   // index in Fields
	Fields     []string
	Lists      []list
	Classes    []ep.Class
	Configs    []ep.Config // Configs[0] is the default
	Rows       []viewRow
	Bounds     bounds
}

type list struct {
	Name  string
	Words []string
}

type viewRow struct {
	Key     [table.KeyFields]int
	Lo, Hi  int
	Config  int
	Default bool
}

type bounds struct{ EvenShare, EvenHottest, ConcentratedShare, HotRankHottest float64 }

func newView(t *table.Table, base string) view {
	name := identifier(base)
	v := view{
		Name: name, Upper: strings.ToUpper(name), Table: t, MachineKey: t.Header.Machine.Key(),
		Routing: slices.Index(table.Fields(), "routing"), Precision: slices.Index(table.Fields(), "precision"),
		Minimax: slices.Index(ep.Classes(), ep.AllRoutings), Even: slices.Index(ep.Classes(), ep.Even),
		Op: slices.Index(table.Fields(), "op"), Combine: slices.Index(ep.RowOps(), ep.Combine), Dispatch: slices.Index(table.Fields(), "dispatch"),
		Fields: table.Fields(), Classes: ep.Classes(),
		Lists: []list{
			{"op", words(ep.RowOps())}, {"mode", words(ep.Modes())},
			{"dtype", words(ep.DTypes())}, {"routing", words(ep.Classes())},
			{"precision", []string{ep.Full.String(), ep.Reduced.String()}},
			{"objective", []string{ep.Alone.String(), ep.BesideProduct.String()}},
			{"layout", layoutNames()},
		},
		Configs: []ep.Config{{}},
		Bounds:  bounds{ep.EvenShare, ep.EvenHottest, ep.ConcentratedShare, ep.HotRankHottest},
	}
	for _, f := range t.Header.Fallback {
		v.Fallback = append(v.Fallback, slices.Index(table.Fields(), f))
	}
	numbers := map[string]int{ep.Config{}.Key(): 0}
	var kernels []string
	for _, r := range t.Rows {
		if !t.Header.ABI.Accepts(t.Header.Build(r)) {
			continue // no caller can use a row of an earlier revision
		}
		kernels = append(kernels, t.Header.Build(r).Kernels()...)
		k := r.Config.Key()
		if _, known := numbers[k]; !known {
			numbers[k] = len(v.Configs)
			v.Configs = append(v.Configs, r.Config)
		}
		v.Rows = append(v.Rows, viewRow{r.Key.Vector(), r.Lo, r.Hi, numbers[k], r.Default})
	}
	v.ABI = t.Header.ABI.Part(kernels...)
	return v
}

func layoutNames() (out []string) {
	for _, l := range ep.Layouts() {
		out = append(out, l.String())
	}
	return out
}

func words[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// identifier returns a lower-case name that is no keyword of Go.
func identifier(base string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(base))
	if name == "" || name[0] >= '0' && name[0] <= '9' || token.IsKeyword(name) || name == "_" {
		name = "table_" + name
	}
	return name
}

func render(name string, funcs template.FuncMap, v view) ([]byte, error) {
	t, err := template.New(name).Funcs(funcs).ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, v)
	return b.Bytes(), err
}
