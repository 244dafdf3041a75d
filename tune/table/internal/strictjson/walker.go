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
)

// shape is what a Go type wants of JSON.
type shape struct {
	typ    reflect.Type
	kind   reflect.Kind
	custom bool    // the type reads itself
	elem   *shape  // of what an object or a list holds; fields have their own
	fields []field // of a struct
}

// field is a struct's field as JSON has it.
type field struct {
	name     string
	shape    *shape
	optional bool
}

// anything is the shape of values that may be whatever they like.
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

// walker goes through the beginning of correct JSON beside the shape that it is to
// fill, so that it only looks for the ends of values.
type walker struct {
	data []byte
	pos  int
	at   int    // where the name or value at hand begins
	path []byte // to the value at hand; left as it is when an error returns

	want  string // path that Line looks for
	found int    // where the deepest part of it begins
}

// errEnd says that the data ends inside a value.
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
		return errors.New("no object where one is needed")
	case s.kind == reflect.Struct:
		return w.structure(s)
	case c == '{':
		return w.mapping(s.elem)
	case c == '[':
		return w.list(s.elem)
	}
	return w.scalar()
}

// structure walks an object that has the fields of a struct.
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

// maxNames bounds the names of one map, which costs more memory than its text.
const maxNames = 256

// mapping walks an object of any names.
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

// members walks the names and values of an object; take gives the shape of the
// value that follows a name.
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

// inside walks the value at the path just entered and the comma behind it, then
// cuts the path back to its outer part.
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

// leadsTo reports whether the path at hand is a beginning of another.
func (w *walker) leadsTo(path string) bool {
	rest, ok := strings.CutPrefix(path, string(w.path))
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// custom walks a value whose type reads itself, and asks it: what encoding/json
// says of such a value names no place.
func (w *walker) custom(s *shape) error {
	start := w.pos
	if err := w.value(anything); err != nil {
		return err
	}
	w.at = start
	raw, v := w.data[start:w.pos], reflect.New(s.typ).Interface()
	var err error
	if direct, ok := v.(json.Unmarshaler); ok {
		err = direct.UnmarshalJSON(raw) // json.Unmarshal allocates
	} else {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("%.200s", err.Error())
	}
	return nil
}

// scalar walks a string, a number, true, false or null.
func (w *walker) scalar() error {
	if w.data[w.pos] == '"' {
		_, err := w.text()
		return err
	}
	for w.pos < len(w.data) && strings.IndexByte(" \t\r\n,]}", w.data[w.pos]) < 0 {
		w.pos++
	}
	if w.pos == len(w.data) {
		return errEnd
	}
	return nil
}

// peek skips white space and gives the next byte, 0 at the end.
func (w *walker) peek() byte {
	for ; w.pos < len(w.data); w.pos++ {
		if c := w.data[w.pos]; c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// text walks a string and gives what stands between its quotes.
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
