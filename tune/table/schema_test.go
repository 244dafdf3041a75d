package table

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validate "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/epbench/epbench/tune/ep"
)

const schemaFile = "../../docs/schema/table.v2.json"

// enums holds the values of types that have named values. The rest of the schema is made from the
// Go types.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[ep.Op]():    anys(ep.RowOps()),
	reflect.TypeFor[ep.Mode]():  anys(ep.Modes()),
	reflect.TypeFor[ep.DType](): anys(ep.DTypes()),
	reflect.TypeFor[ep.Class](): anys(ep.Classes()),

	reflect.TypeFor[ep.Precision](): {"full", "reduced"},
	reflect.TypeFor[ep.Objective](): {"alone", "beside"},
	reflect.TypeFor[ep.Layout]():    layoutNames(),
}

func layoutNames() (out []any) {
	for _, l := range ep.Layouts() {
		out = append(out, l.String())
	}
	return out
}

func anys[T any](values []T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

func tableSchema(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[ep.Value]() {
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
					{Type: "integer"}, {Type: "string", Pattern: `^[a-z0-9_.+-]{1,64}$`},
				}}
			}
			if enum := enums[t]; enum != nil {
				return &jsonschema.Schema{Type: "string", Enum: enum}
			}
			return nil
		},
	}
	if err := r.AddGoComments("github.com/epbench/epbench/tune/table", "./"); err != nil {
		t.Fatal(err)
	}
	s := r.Reflect(&Table{})
	s.Title = "epbench tuned table, schema 2"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestSchemaIsPublished(t *testing.T) {
	want := tableSchema(t)
	if os.Getenv("EPBENCH_UPDATE") == "1" {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the types; run make golden and review", schemaFile)
	}
}

// TestSchemaJudgesAsLoadDoes: the published schema accepts and refuses the same files as Load.
// The files are a written table, and copies with one field removed, added or mistyped.
func TestSchemaJudgesAsLoadDoes(t *testing.T) {
	doc, err := validate.UnmarshalJSON(bytes.NewReader(tableSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := validate.NewCompiler()
	if err := c.AddResource("table.json", doc); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile("table.json")
	keep := testRow(ep.HotRank, 0, 64, 128)
	keep.Default, keep.Config = true, ep.Config{}
	good := string(encodeTable(t, testTable(testRow(ep.Even, 0, 8, 128), keep)))
	for _, e := range []struct{ old, new string }{
		{"", ""}, {`"lo":0,`, ``}, {`"lo":0`, `"lo":0,"low":1`}, {`"lo":0`, `"lo":0.5`}, {`"routing":"even"`, `"routing":"odd"`},
		{`"threads":128`, `"threads":"A B"`}, {`"fallback":["routing"`, `"fallback":null,"x":["routing"`}, {`"op":"dispatch"`, `"op":"send"`},
		{`"precision":"full"`, `"precision":"reduced"`}, {`"precision":"full"`, `"precision":"same"`},
		{`,"precision":"full"`, ``}, {`"precision":"full"`, `"precision":"full","layout":"rank"`},
		{`"precision":"full"`, `"precision":"full","layout":"expert"`}, {`"precision":"full"`, `"precision":"full","layout":"ranks"`},
	} {
		text := strings.Replace(good, e.old, e.new, 1)
		v, err := validate.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		_, bad := LoadEdited(strings.NewReader(text))
		if err := schema.Validate(v); (err == nil) != (bad == nil) {
			t.Errorf("%s for %s: the schema says %v, Load %v", e.new, e.old, err, bad)
		}
	}
}
