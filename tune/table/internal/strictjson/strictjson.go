// Package strictjson reads JSON files that may be truncated, edited or hostile. It refuses everything
// that encoding/json refuses, and also:
//
//   - a field whose name is not exactly a tag of the struct
//   - a field that is given twice
//   - a field that is missing and not tagged omitempty or omitzero
//   - null
//
// An error is one line of text, and names the file's line and the field. All checks come before any value is allocated,
// so that hostile files cannot use much memory.
package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Unmarshal reads one JSON value into the pointer v. It refuses text after the value. A struct must not embed another
// struct, and may have at most 64 fields.
func Unmarshal(data []byte, v any) error {
	s := shapeOf(reflect.TypeOf(v).Elem(), map[reflect.Type]*shape{})
	w := walker{data: data}
	var err error
	if at := tooDeep(data); at >= 0 {
		err, w.data = fmt.Errorf("nested deeper than %d levels", mostNested), data[:at]
	} else if !json.Valid(data) {
		err = json.Unmarshal(data, new(json.RawMessage))
		w.data = before(data, err)
	}
	refused := w.value(s)
	if refused == nil && err == nil {
		if err = json.Unmarshal(data, v); err == nil {
			return nil
		}
		w = walker{data: before(data, err)}
		refused = w.value(s)
	}
	if refused != nil && refused != errEnd {
		err = refused
	} else {
		w.at = len(w.data)
	}
	shown := w.path[:min(len(w.path), longestPath)]
	path := strings.Trim(strconv.Quote(string(shown)), `"`) // so that a terminal can show the path
	if path != "" {
		path = fmt.Sprintf("%.80s: ", path)
	}
	return fmt.Errorf("line %d: %s%w", line(data, w.at), path, plain(err))
}

const mostNested = 100

// tooDeep returns the position of the first bracket nested too deep, or -1.
func tooDeep(data []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > mostNested {
				return i
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return -1
}

const longestTime = 64

const longestPath = 320

// before returns the data before the position of an encoding/json error.
func before(data []byte, err error) []byte {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	end := int64(1)
	if errors.As(err, &syntax) {
		end = syntax.Offset
	} else if errors.As(err, &wrong) {
		end = wrong.Offset
	}
	return data[:max(end-1, 0)]
}

func plain(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%.60s where %s is needed", wrong.Value, wrong.Type)
	}
	return err
}

// Line returns the line on which the value at a path such as rows[3].key.ranks begins. A path that does not exist
// gives the line of its deepest existing part.
func Line(data []byte, path string) int {
	w := walker{data: data, want: path}
	_ = w.value(anything)
	return line(data, w.found)
}

func line(data []byte, at int) int {
	return 1 + bytes.Count(data[:min(at, len(data))], []byte("\n"))
}

// shape describes the JSON that a Go type needs.
type shape struct {
	typ    reflect.Type
	kind   reflect.Kind
	custom bool
	elem   *shape
	fields []field
}

type field struct {
	name     string
	shape    *shape
	optional bool
}

var anything = &shape{kind: reflect.Interface}

func init() { anything.elem = anything }

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func shapeOf(t reflect.Type, known map[reflect.Type]*shape) *shape {
	if s := known[t]; s != nil {
		return s
	}
	p := reflect.PointerTo(t)
	s := &shape{typ: t, kind: t.Kind(), elem: anything, custom: p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)}
	known[t] = s
	switch s.kind {
	case reflect.Slice, reflect.Map:
		s.elem = shapeOf(t.Elem(), known)
	case reflect.Struct:
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name != "" && name != "-" {
				s.fields = append(s.fields, field{name, shapeOf(t.Field(i).Type, known), strings.HasPrefix(options, "omit")})
			}
		}
	}
	return s
}

// walker compares valid JSON with a shape.
type walker struct {
	data []byte
	pos  int
	at   int // start of the current value
	path []byte

	want  string // path that Line looks for
	found int
}

var errEnd = errors.New("the end")

func (w *walker) value(s *shape) error {
	c := w.peek()
	w.at = w.pos
	switch {
	case c == 0:
		return errEnd
	case c == 'n' && s != anything:
		return errors.New("null where a value is needed")
	case s.custom:
		return w.custom(s)
	case s.kind == reflect.Struct && c != '{':
		return errors.New("no object where an object is needed")
	case s.kind == reflect.Struct:
		return w.structure(s)
	case c == '{':
		return w.mapping(s.elem)
	case c == '[':
		return w.list(s.elem)
	}
	return w.scalar()
}

func (w *walker) structure(s *shape) error {
	var seen uint64
	err := w.members(func(name []byte) (*shape, error) {
		for i, f := range s.fields {
			if f.name != string(name) {
				continue
			}
			if seen&(1<<i) != 0 {
				return nil, fmt.Errorf("field %q is given twice", name)
			}
			seen |= 1 << i
			return f.shape, nil
		}
		return nil, fmt.Errorf("unknown field %.40q", name)
	})
	for i, f := range s.fields {
		if err == nil && seen&(1<<i) == 0 && !f.optional {
			err = fmt.Errorf("field %q is missing", f.name)
		}
	}
	return err
}

// maxNames bounds the names of one map, because a map takes more memory than its text.
const maxNames = 256

func (w *walker) mapping(elem *shape) error {
	seen := map[string]bool{}
	return w.members(func(name []byte) (*shape, error) {
		switch {
		case seen[string(name)]:
			return nil, fmt.Errorf("field %.40q is given twice", name)
		case len(seen) == maxNames:
			return nil, fmt.Errorf("more than %d fields", maxNames)
		case bytes.IndexByte(name, '\\') >= 0:
			return nil, fmt.Errorf("field %.40q is spelled with escapes", name)
		}
		seen[string(name)] = true
		return elem, nil
	})
}

// members reads an object. `take` returns the expected shape of the value with this name.
func (w *walker) members(take func(name []byte) (*shape, error)) error {
	w.pos++
	for w.peek() != '}' {
		w.at = w.pos
		name, err := w.text()
		if err != nil {
			return err
		}
		s, err := take(name)
		if err != nil {
			return err
		}
		if w.peek() == ':' {
			w.pos++
		}
		outer := len(w.path)
		if outer > 0 {
			w.path = append(w.path, '.')
		}
		w.path = append(w.path, name[:min(len(name), 40)]...)
		if err := w.inside(s, outer); err != nil {
			return err
		}
	}
	w.at = w.pos
	w.pos++
	return nil
}

func (w *walker) list(elem *shape) error {
	w.pos++
	for i := int64(0); w.peek() != ']'; i++ {
		outer := len(w.path)
		w.path = append(strconv.AppendInt(append(w.path, '['), i, 10), ']')
		if err := w.inside(elem, outer); err != nil {
			return err
		}
	}
	w.pos++
	return nil
}

func (w *walker) inside(s *shape, outer int) error {
	if w.peek() != 0 && w.want != "" && w.leadsTo(w.want) {
		w.found = w.pos
	}
	if err := w.value(s); err != nil {
		return err
	}
	if w.path = w.path[:outer]; w.peek() == ',' {
		w.pos++
	}
	return nil
}

func (w *walker) leadsTo(path string) bool {
	rest, ok := strings.CutPrefix(path, string(w.path))
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// custom calls the type's unmarshaler itself, because an error of encoding/json would name no field.
func (w *walker) custom(s *shape) error {
	start := w.pos
	if err := w.value(anything); err != nil {
		return err
	}
	w.at = start
	raw, v := w.data[start:w.pos], reflect.New(s.typ).Interface()
	if s.typ == reflect.TypeFor[time.Time]() && len(raw) > longestTime { // the error of time.Time would quote all the text
		return errors.New("longer than a time of RFC 3339")
	}
	var err error
	if direct, ok := v.(json.Unmarshaler); ok {
		err = direct.UnmarshalJSON(raw) // json.Unmarshal would allocate memory
	} else {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("%.200s", err.Error())
	}
	return nil
}

func (w *walker) scalar() error {
	if w.data[w.pos] == '"' {
		_, err := w.text()
		return err
	}
	start := w.pos
	for w.pos < len(w.data) && strings.IndexByte(" \t\r\n,]}", w.data[w.pos]) < 0 {
		w.pos++
	}
	if w.pos == len(w.data) || w.pos == start { // the syntax is wrong here
		return errEnd
	}
	return nil
}

func (w *walker) peek() byte {
	for ; w.pos < len(w.data); w.pos++ {
		if c := w.data[w.pos]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

func (w *walker) text() ([]byte, error) {
	for at := w.pos + 1; at < len(w.data); at++ {
		switch w.data[at] {
		case '\\':
			at++
		case '"':
			raw := w.data[w.pos+1 : at]
			w.pos = at + 1
			return raw, nil
		}
	}
	return nil, errEnd
}
