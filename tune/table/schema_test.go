package table

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validate "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

func named(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[ep.Op]():
		return testfile.Words(ep.RowOps())
	case reflect.TypeFor[ep.Mode]():
		return testfile.Words(ep.Modes())
	case reflect.TypeFor[ep.DType]():
		return testfile.Words(ep.DTypes())
	case reflect.TypeFor[ep.Class]():
		return testfile.Words(ep.Classes())
	}
	return nil
}

func tableSchema(t *testing.T) []byte {
	t.Helper()
	return testfile.Indented(t, testfile.Schema(t, "epbench tuned table, schema 2", &Table{}, "github.com/epbench/epbench/tune/table", named))
}

func TestSchemaIsPublished(t *testing.T) {
	testfile.Golden(t, "../../docs/schema/table.v2.json", tableSchema(t))
}

// TestSchemaJudgesAsLoadDoes removes, adds or mistypes one field.
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
