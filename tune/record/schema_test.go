package record

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validate "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/testfile"
)

var schemas = map[string]struct {
	path, title string
	value       any
}{
	RunFile:    {"../../docs/schema/run.v2.json", "run.json of epbench, schema 2", &Run{}},
	TrialsFile: {"../../docs/schema/trials.v2.json", "one line of trials.jsonl of epbench, schema 2", &Result{}},
}

func optional() *jsonschema.Schema {
	return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number"}, {Type: "null"}}}
}

func mapped(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[ep.Value]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer"}, {Type: "string"}}}
	case reflect.TypeFor[Interval]():
		s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), Required: []string{"mid", "low", "high"}}
		for _, name := range s.Required {
			s.Properties.Set(name, optional())
		}
		return s
	case reflect.TypeFor[Loss]():
		return optional()
	case reflect.TypeFor[ep.Layout]():
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

func TestSchemasArePublished(t *testing.T) {
	for _, s := range schemas {
		testfile.Golden(t, s.path, testfile.Indented(t, testfile.Schema(t, s.title, s.value, "github.com/epbench/epbench/tune/record", mapped)))
	}
}

func TestSchemasFitRecordings(t *testing.T) {
	for file, s := range schemas {
		schema := compiled(t, s.path)
		found, err := filepath.Glob("../../testdata/*/*/" + file)
		if err != nil || len(found) < 5 {
			t.Fatalf("%d recordings of %s (%v)", len(found), file, err)
		}
		for _, path := range found {
			text := testfile.Read(t, path)
			docs := []string{string(text)}
			if file == TrialsFile {
				docs = strings.Split(strings.TrimSpace(string(text)), "\n")
			}
			for i, doc := range docs {
				if err := judge(t, schema, doc); err != nil {
					t.Errorf("%s, document %d: %v", path, i+1, err)
					break
				}
			}
			for old, bad := range map[string]string{`"schema":`: `"schema":"2","other":`, `"problem":`: `"problems":`, `"seed":`: `"seed":[],"seeds":`} {
				text := strings.Replace(docs[0], old, bad, 1)
				if err := judge(t, schema, text); err == nil && text != docs[0] {
					t.Errorf("%s: %s in place of %s is accepted", path, bad, old)
				}
			}
		}
	}
}

func compiled(t *testing.T, path string) *validate.Schema {
	t.Helper()
	s, err := validate.NewCompiler().Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func judge(t *testing.T, schema *validate.Schema, text string) error {
	t.Helper()
	doc, err := validate.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(doc)
}
