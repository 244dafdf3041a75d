package plan

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxTableBytes bounds the size of a table file; 10,000 rows take about 8 MB.
const MaxTableBytes = 64 << 20

// Load reads a table strictly: every field present once and within its bounds,
// no field unknown, no two rows over the same tokens, and the content matching
// its id. Errors name the line and the field. Memory stays within a small
// multiple of the input.
func Load(r io.Reader) (*Table, error) {
	t, err := parse(r)
	if err != nil {
		return nil, err
	}
	want, err := t.hash()
	if err != nil {
		return nil, err
	}
	if t.ID != want {
		return nil, fmt.Errorf("id: the content hashes to %.12s, the table says %.12q; it was edited after it was written (--allow-edited takes it, marked)", want, t.ID)
	}
	return t, nil
}

// LoadEdited reads a table whose content may not match its id. Such a table
// comes back with Header.Edited set and the ID of what it now says.
func LoadEdited(r io.Reader) (*Table, error) {
	t, err := parse(r)
	if err != nil {
		return nil, err
	}
	id := t.ID
	if err := t.Seal(); err != nil || t.ID == id {
		return t, err
	}
	t.Header.Edited = true
	return t, t.Seal()
}

// parse reads and checks everything but the id; rows come back sorted.
func parse(r io.Reader) (*Table, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxTableBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxTableBytes {
		return nil, fmt.Errorf("the file is larger than %d MiB; split the table by op or ranks", MaxTableBytes>>20)
	}
	t := &Table{}
	l := loader{scanner: scanner{data: data}}
	if err := l.value(reflect.ValueOf(t).Elem()); err != nil {
		return nil, err
	}
	if l.peek() != 0 || l.pos < len(data) {
		return nil, l.failf(l.pos, "something follows the table")
	}
	if a, b, found := t.overlap(); found {
		return nil, l.failf(l.rows[b], "%w", overlapError(t.Rows, a, b))
	}
	slices.SortStableFunc(t.Rows, compareRows)
	return t, nil
}

// loader fills a Table from JSON by the types of its fields.
type loader struct {
	scanner
	rows []int // where each row starts
}

func (l *loader) value(v reflect.Value) error {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		return l.time(p)
	case *Value:
		return l.param(p)
	case *map[string]Value:
		return l.params(p)
	}
	switch v.Kind() {
	case reflect.Struct:
		return l.object(v)
	case reflect.Slice:
		return l.list(v)
	case reflect.String:
		s, err := l.text()
		v.SetString(s)
		return err
	}
	return l.scalar(v)
}

// object reads a struct: each field once, none missing, none unknown.
func (l *loader) object(v reflect.Value) error {
	var at [32]int // where each field's value starts, 0 when unseen
	start := l.pos
	if err := l.expect('{'); err != nil {
		return err
	}
	if l.peek() == '}' {
		return l.missing(v.Type(), at[:])
	}
	for more := true; more; {
		err := l.member(v, at[:])
		if err == nil {
			more, err = l.more('}')
		}
		if err != nil {
			return err
		}
	}
	if err := l.missing(v.Type(), at[:]); err != nil {
		return err
	}
	return l.checkObject(v, start, at[:])
}

func (l *loader) member(v reflect.Value, at []int) error {
	l.peek()
	start := l.pos
	name, err := l.text()
	if err != nil {
		return err
	}
	i := fieldIndex(v.Type(), name)
	if i < 0 {
		return l.failf(start, "unknown field %.40q", name)
	}
	if at[i] > 0 {
		return l.failf(start, "field %q is given twice", name)
	}
	if err := l.expect(':'); err != nil {
		return err
	}
	l.peek()
	at[i] = l.pos
	l.enter("." + name)
	defer l.leave()
	if v.Type() == reflect.TypeFor[Table]() && name != "schema" && at[0] == 0 {
		return l.failf(start, "schema must come first")
	}
	if err := l.value(v.Field(i)); err != nil {
		return err
	}
	if t, ok := v.Addr().Interface().(*Table); ok && name == "schema" && t.Schema != Schema {
		return l.failf(start, "%d, this build reads %d; export the table again with a matching epbench", t.Schema, Schema)
	}
	return nil
}

func (l *loader) missing(t reflect.Type, at []int) error {
	for i := range t.NumField() {
		if at[i] == 0 {
			return l.failf(l.pos, "field %q is missing", jsonName(t, i))
		}
	}
	return nil
}

// checkObject asks a part of the table whether its values are in bounds, and
// blames the line of the field that the answer names.
func (l *loader) checkObject(v reflect.Value, start int, at []int) error {
	c, ok := v.Addr().Interface().(checked)
	if !ok {
		return nil
	}
	err := c.check()
	if err == nil {
		return nil
	}
	field, _, _ := strings.Cut(err.Error(), ":")
	for i := range v.NumField() {
		if squash(jsonName(v.Type(), i)) == squash(field) {
			start = at[i]
		}
	}
	return l.failf(start, "%w", err)
}

// squash makes the flag spelling of a field (topk) equal to its JSON name.
func squash(name string) string { return strings.NewReplacer("_", "", "-", "").Replace(name) }

func fieldIndex(t reflect.Type, name string) int {
	for i := range t.NumField() {
		if jsonName(t, i) == name {
			return i
		}
	}
	return -1
}

func jsonName(t reflect.Type, i int) string { return t.Field(i).Tag.Get("json") }

// minRow is below the shortest JSON that a whole row can have, its field names
// alone; it bounds the memory that a list of rows may ask for.
const minRow = 400

func (l *loader) list(v reflect.Value) error {
	if err := l.expect('['); err != nil {
		return err
	}
	rows := v.Type() == reflect.TypeFor[[]Row]()
	n := (len(l.data)-l.pos)/minRow + 1
	if !rows {
		n = l.scalars()
	}
	if l.peek() == ']' {
		l.pos++
		return nil
	}
	v.Grow(n)
	for more := true; more; {
		i := v.Len()
		v.SetLen(i + 1)
		l.enter("[" + strconv.Itoa(i) + "]")
		l.peek()
		if rows {
			l.rows = append(l.rows, l.pos)
		}
		err := l.value(v.Index(i))
		if err == nil {
			l.leave()
			more, err = l.more(']')
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) scalar(v reflect.Value) (err error) {
	start, w := l.pos, l.word()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(w == "true")
		if w != "true" && w != "false" {
			err = l.failf(start, "%.20q is neither true nor false", w)
		}
	case reflect.Float64:
		f, bad := strconv.ParseFloat(w, 64)
		v.SetFloat(f)
		if bad != nil || strings.Trim(w, "+-.0123456789eE") != "" {
			err = l.failf(start, "%.20q is not a number of 64 bits", w)
		}
	default:
		n, ok := Value(w).Int()
		v.SetInt(int64(n))
		if !ok {
			err = l.failf(start, "%.20q is not an integer of 64 bits", w)
		}
	}
	return err
}

func (l *loader) time(p *time.Time) error {
	start := l.pos
	s, err := l.text()
	if err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Location() != time.UTC || t.Nanosecond() != 0 {
		return l.failf(start, "%.40q is not a time like 2026-01-31T12:00:00Z", s)
	}
	*p = t
	return nil
}

func (l *loader) param(p *Value) error {
	l.peek()
	start := l.pos
	if l.peek() == '"' {
		if _, err := l.text(); err != nil {
			return err
		}
	} else {
		l.word()
	}
	if err := p.UnmarshalJSON(l.data[start:l.pos]); err != nil {
		return l.failf(start, "%w", err)
	}
	return nil
}

func (l *loader) params(p *map[string]Value) error {
	if err := l.expect('{'); err != nil {
		return err
	}
	if l.peek() == '}' {
		l.pos++
		return nil
	}
	*p = map[string]Value{}
	for more := true; more; {
		start := l.pos
		name, err := l.text()
		if err != nil {
			return err
		}
		if _, dup := (*p)[name]; dup {
			return l.failf(start, "parameter %.40q is given twice", name)
		}
		if err = l.expect(':'); err != nil {
			return err
		}
		var v Value
		l.enter("." + name)
		if err = l.param(&v); err != nil {
			return err
		}
		l.leave()
		(*p)[name] = v
		if more, err = l.more('}'); err != nil {
			return err
		}
	}
	return nil
}
