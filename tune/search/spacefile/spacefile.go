// Package spacefile reads search spaces from YAML.
package spacefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/epbench/epbench/tune/ep"
)

const maxSize = 1 << 20

// File is a parsed space file. A nil File leaves the kernels' declared search spaces unchanged.
type File struct {
	Version     int                         `yaml:"version"`
	Kernels     map[string]map[string]Param `yaml:"kernels"` // by kernel and parameter
	Derived     []Derived                   `yaml:"derived"`
	Constraints []Constraint                `yaml:"constraints"`
	Required    []string                    `yaml:"required"` // config keys

	required []ep.Config
}

// Param gives the values of one parameter. The other fields are optional. If given, they must equal the kernel's
// declaration.
type Param struct {
	Values  Values `yaml:"values"`
	Unit    string `yaml:"unit"`
	Binding string `yaml:"binding"`
	Class   string `yaml:"class"`
}

// Derived gives a name to the value of an expression, for later constraints.
type Derived struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
}

// Constraint keeps the points for which an expression is true.
type Constraint struct {
	Name    string   `yaml:"name"`    // shown with the number of rejected points
	Keep    string   `yaml:"keep"`    // expression over parameters, machine and problem
	Kernels []string `yaml:"kernels"` // empty for all kernels
}

// Values holds the values of a parameter: in YAML a list, or a range. 8:132:4 has steps of 4, and 1:64:x2 doubles the
// value.
type Values []ep.Value

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *Values) UnmarshalYAML(n *yaml.Node) (err error) {
	if n.Kind == yaml.ScalarNode {
		*v, err = ParseValues(n.Value)
		return err
	}
	var items []string
	if err := n.Decode(&items); err != nil {
		return fmt.Errorf("line %d: values: write a list or a range", n.Line)
	}
	for _, s := range items {
		if _, err := ep.ParseConfig("k:v=" + s); err != nil || slices.Contains(*v, ep.Value(s)) {
			return fmt.Errorf("line %d: values: %.40q is not an integer or lower-case word, or it is listed twice", n.Line, s)
		}
		*v = append(*v, ep.Value(s))
	}
	return nil
}

// ParseValues reads the value of --param: a range, or a list of integers or words.
func ParseValues(s string) ([]ep.Value, error) {
	var out []ep.Value
	if ints, err := ep.ParseInts(s); err == nil {
		for _, n := range ints {
			out = append(out, ep.Value(strconv.Itoa(n)))
		}
		return out, nil
	} else if s == "" || s[0] >= '0' && s[0] <= '9' {
		return nil, err
	}
	for word := range strings.SplitSeq(s, ",") {
		if _, err := ep.ParseConfig("k:v=" + word); err != nil {
			return nil, fmt.Errorf("value %.40q: write integers, a range or lower-case words", word)
		}
		out = append(out, ep.Value(word))
	}
	return out, nil
}

// Read parses a space file. It refuses unknown fields.
func Read(in io.Reader) (*File, error) {
	b, err := io.ReadAll(io.LimitReader(in, maxSize+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxSize {
		return nil, fmt.Errorf("space: larger than %d MiB", maxSize>>20)
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	f := &File{}
	if err := dec.Decode(f); errors.Is(err, io.EOF) {
		return nil, errors.New("space: the file is empty; epbench docs search-space shows what it holds")
	} else if err != nil {
		return nil, fmt.Errorf("space: %s", firstLine(err))
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("space: more than one YAML document")
	}
	return f, f.check()
}

var fieldNames = []string{"version", "kernels", "derived", "constraints", "required", "values", "unit", "binding", "class", "name", "value", "keep"}

var unknownField = regexp.MustCompile(`field (\S+) not found in type .*`)

func firstLine(err error) string {
	text := err.Error()
	var t *yaml.TypeError
	if errors.As(err, &t) && len(t.Errors) > 0 {
		text = t.Errors[0]
	}
	text, _, _ = strings.Cut(text, "\n")
	if m := unknownField.FindStringSubmatch(text); m != nil {
		hint := ep.DidYouMean(m[1], fieldNames, "; there are "+strings.Join(fieldNames, ", "))
		text = unknownField.ReplaceAllLiteralString(text, "unknown field "+m[1]+hint)
	}
	return wrongKind.ReplaceAllStringFunc(text, func(whole string) string {
		switch m := wrongKind.FindStringSubmatch(whole); {
		case m[1] == "int":
			return "a number belongs here"
		case strings.HasPrefix(m[1], "[]"):
			return "a list belongs here"
		case strings.HasPrefix(m[1], "map") || strings.Contains(m[1], "."):
			return "fields with values belong here"
		}
		return "a word belongs here"
	})
}

var wrongKind = regexp.MustCompile(`cannot unmarshal \S+(?: .*)? into (\S+)`)

func (f *File) check() error {
	if f.Version != 1 {
		return fmt.Errorf("space: version: %d, this epbench reads 1", f.Version)
	}
	for i, d := range f.Derived {
		if d.Name == "" || d.Value == "" {
			return fmt.Errorf("space: derived[%d]: needs a name and a value", i)
		}
	}
	for i, c := range f.Constraints {
		if c.Keep == "" {
			return fmt.Errorf("space: constraints[%d]: the field keep is missing; give it an expression", i)
		}
	}
	for i, key := range f.Required {
		c, err := ep.ParseConfig(key)
		if err != nil || c.IsDefault() {
			return fmt.Errorf("space: required[%d]: %.60q is not kernel:name=value,name=value", i, key)
		}
		f.required = append(f.required, c)
	}
	return nil
}

// Values returns the values that the file gives for a parameter, or nil.
func (f *File) Values(kernel, param string) []ep.Value {
	if f == nil {
		return nil
	}
	return f.Kernels[kernel][param].Values
}

// Candidates returns the required configs of one kernel.
func (f *File) Candidates(kernel string) []ep.Config {
	if f == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.required), func(c ep.Config) bool { return c.Kernel != kernel })
}

// Declared holds what a kernel declares about a parameter.
type Declared struct{ Unit, Binding, Class string }

// Check refuses a file that names an unknown kernel or parameter, or contradicts a declaration.
func (f *File) Check(kernels map[string]map[string]Declared) error {
	if f == nil {
		return nil
	}
	for _, kernel := range slices.Sorted(maps.Keys(f.Kernels)) {
		if err := knownKernel(kernels, "kernels."+kernel, kernel); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(f.Kernels[kernel])) {
			if err := f.Kernels[kernel][name].check(kernel, name, kernels[kernel]); err != nil {
				return err
			}
		}
	}
	for i, c := range f.Constraints {
		for _, kernel := range c.Kernels {
			if err := knownKernel(kernels, fmt.Sprintf("constraints[%d].kernels", i), kernel); err != nil {
				return err
			}
		}
	}
	for i, c := range f.required {
		if err := knownKernel(kernels, fmt.Sprintf("required[%d]", i), c.Kernel); err != nil {
			return err
		}
	}
	return nil
}

func knownKernel(known map[string]map[string]Declared, field, kernel string) error {
	if _, ok := known[kernel]; ok {
		return nil
	}
	return fmt.Errorf("space: %s: this backend has no kernel %q; it has %s", field, kernel, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

func (p Param) check(kernel, name string, declared map[string]Declared) error {
	d, ok := declared[name]
	if !ok {
		return fmt.Errorf("space: kernels.%s.%s: this backend has no such parameter", kernel, name)
	}
	for _, w := range []struct{ field, given, declared string }{
		{"unit", p.Unit, d.Unit}, {"binding", p.Binding, d.Binding}, {"class", p.Class, d.Class},
	} {
		if w.given != "" && w.given != w.declared {
			return fmt.Errorf("space: kernels.%s.%s.%s: %q, the kernel declares %q", kernel, name, w.field, w.given, w.declared)
		}
	}
	return nil
}
