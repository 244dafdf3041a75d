package table

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/epbench/epbench/tune/ep"
)

// loader fills a Table from JSON by the types of its fields.
type loader struct {
	scanner
	rows   []int // where each row starts
	fields map[reflect.Type][]string
}

// optional follows the name of a field that is left out at its zero value.
const optional = ",omitempty"

// names lists the JSON tags of a struct's fields, looked up once a type.
func (l *loader) names(t reflect.Type) []string {
	if _, known := l.fields[t]; !known {
		for i := range t.NumField() {
			if name := t.Field(i).Tag.Get("json"); name != "-" {
				l.fields[t] = append(l.fields[t], name)
			} else {
				l.fields[t] = append(l.fields[t], optional)
			}
		}
	}
	return l.fields[t]
}

// named reports whether a tag is of a field of that name.
func named(tag, name string) bool { return strings.TrimSuffix(tag, optional) == name }

func (l *loader) value(v reflect.Value) error {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		return l.time(p)
	case *ep.Value:
		return l.param(p)
	case *ep.Precision:
		return l.precision(p)
	case *map[string]ep.Value:
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

// object reads a struct: each field once, none but optional ones missing, none
// unknown.
func (l *loader) object(v reflect.Value) error {
	names := l.names(v.Type())
	seen := make([]int, 0, 32)[:len(names)] // where each field's value starts, 0 when unseen
	l.peek()
	start := l.pos
	if err := l.expect('{'); err != nil {
		return err
	}
	for more := l.peek() != '}'; more; {
		err := l.member(v, names, seen)
		if err == nil {
			more, err = l.more('}')
		}
		if err != nil {
			return err
		}
	}
	for i, at := range seen {
		if at == 0 && !strings.HasSuffix(names[i], optional) {
			return l.failf(l.pos, "field %q is missing", names[i])
		}
	}
	return l.checkObject(v, names, append(seen, start))
}

func (l *loader) member(v reflect.Value, names []string, seen []int) error {
	l.peek()
	start := l.pos
	raw, err := l.quoted()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(names, func(n string) bool { return named(n, string(raw)) })
	if i < 0 {
		return l.failf(start, "unknown field %.40q", raw)
	}
	if seen[i] > 0 {
		return l.failf(start, "field %q is given twice", raw)
	}
	if err := l.expect(':'); err != nil {
		return err
	}
	l.peek()
	seen[i] = l.pos
	l.enter(string(raw))
	defer l.leave()
	if err := l.value(v.Field(i)); err != nil {
		return err
	}
	if strings.HasSuffix(names[i], optional) && v.Field(i).IsZero() {
		return l.failf(seen[i], "an optional field is left out at its default")
	}
	return l.checkSchema(v, names[i])
}

// checkSchema stops at a schema this build does not know before the rest of
// the file is judged by the wrong one.
func (l *loader) checkSchema(v reflect.Value, field string) error {
	t, ok := v.Addr().Interface().(*Table)
	if !ok || t.Schema == Schema {
		return nil
	}
	if field != "schema" {
		return l.failf(l.pos, "the field schema must come first")
	}
	return l.failf(l.pos, "%w", t.checkSchema())
}

// checkObject asks a part of the table whether its values are in bounds, and
// blames the line of the field that the answer names. The last of seen is
// where the object starts.
func (l *loader) checkObject(v reflect.Value, names []string, seen []int) error {
	c, ok := v.Addr().Interface().(checked)
	if _, whole := v.Addr().Interface().(*Table); !ok || whole {
		return nil
	}
	err := c.Validate()
	if err == nil {
		return nil
	}
	field, _, _ := strings.Cut(err.Error(), ":")
	at := slices.IndexFunc(names, func(n string) bool { return squash(strings.TrimSuffix(n, optional)) == squash(field) })
	if at < 0 {
		at = len(seen) - 1
	}
	return l.failf(seen[at], "%w", err)
}

// squash makes the flag spelling of a field (topk) equal to its JSON name.
func squash(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", "")
}

// minRow is below the shortest JSON that a whole row can have, its field names
// alone; it bounds the memory that a list of rows may ask for.
const minRow = 400

func (l *loader) list(v reflect.Value) error {
	if err := l.expect('['); err != nil {
		return err
	}
	rows := v.Type() == reflect.TypeFor[[]Row]() || v.Type() == reflect.TypeFor[[]row1]()
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
		l.enterPlace(i)
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
	start, w := l.pos, string(l.word())
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(w == "true")
		if w != "true" && w != "false" {
			err = l.failf(start, "%s is neither true nor false", clip(w))
		}
	case reflect.Float64:
		f, bad := strconv.ParseFloat(w, 64)
		v.SetFloat(f)
		if bad != nil || strings.Trim(w, "+-.0123456789eE") != "" {
			err = l.failf(start, "%s is not a number of 64 bits", clip(w))
		}
	default:
		n, ok := ep.Value(w).Int()
		v.SetInt(int64(n))
		if !ok {
			err = l.failf(start, "%s is not an integer of 64 bits", clip(w))
		}
	}
	return err
}

// clip quotes a word for an error line, shortened if it is long.
func clip(word string) string {
	if len(word) > 24 {
		return strconv.Quote(word[:24]) + "..."
	}
	return strconv.Quote(word)
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

func (l *loader) param(p *ep.Value) error {
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

// maxParams bounds the parameters of one config.
const maxParams = 64

func (l *loader) params(p *map[string]ep.Value) error {
	if err := l.expect('{'); err != nil {
		return err
	}
	if l.peek() == '}' {
		l.pos++
		return nil
	}
	*p = map[string]ep.Value{}
	for more := true; more; {
		start := l.pos
		name, err := l.text()
		if err != nil {
			return err
		}
		if _, dup := (*p)[name]; dup {
			return l.failf(start, "parameter %.40q is given twice", name)
		}
		if len(*p) == maxParams {
			return l.failf(start, "more than %d parameters", maxParams)
		}
		if err = l.expect(':'); err != nil {
			return err
		}
		var v ep.Value
		l.enter(name)
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

func (l *loader) precision(p *ep.Precision) error {
	l.peek()
	start := l.pos
	s, err := l.text()
	if err == nil {
		if err = p.UnmarshalText([]byte(s)); err != nil {
			err = l.failf(start, "%w", err)
		}
	}
	return err
}
