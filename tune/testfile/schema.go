package testfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/epbench/epbench/tune/ep"
)

// Schema returns the JSON schema of the Go type that the argument `value` has. The function `own` returns the schema of
// a type that encodes itself, and nil for other types. The argument `commented` is the import path of the package whose
// comments the schema contains, or "".
func Schema(t testing.TB, title string, value any, commented string, own func(reflect.Type) *jsonschema.Schema) *jsonschema.Schema {
	t.Helper()
	r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: true, Mapper: func(t reflect.Type) *jsonschema.Schema {
		if s := own(t); s != nil {
			return s
		}
		return common(t)
	}}
	if commented != "" {
		if err := r.AddGoComments(commented, "./"); err != nil {
			t.Fatal(err)
		}
	}
	s := r.Reflect(value)
	s.Title = title
	return s
}

func common(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[ep.Value]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "integer"}, {Type: "string", Pattern: `^[a-z0-9_.+-]{1,64}$`}}}
	case reflect.TypeFor[ep.Precision]():
		return Words(ep.Precisions())
	case reflect.TypeFor[ep.Objective]():
		return Words(ep.Objectives())
	case reflect.TypeFor[ep.Layout]():
		return Words(ep.Layouts())
	}
	return nil
}

// Words returns the schema of a string type. `values` lists all values of the type.
func Words[T any](values []T) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, fmt.Sprint(v))
	}
	return s
}

// Indented returns the schema as JSON text for a file.
func Indented(t testing.TB, s *jsonschema.Schema) []byte {
	t.Helper()
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}
