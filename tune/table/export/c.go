package export

import (
	"fmt"
	"strings"
	"text/template"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// exportC writes one self-contained header. Names carry the output's name as
// prefix, so that two tables can live in one program.
func exportC(t *table.Table, base string) ([]File, error) {
	src, err := render("table.h.tmpl", template.FuncMap{
		"c": cString, "upper": cConstant, "join": joinInts,
		"number": func(v ep.Value) string {
			if n, ok := v.Int(); ok {
				return fmt.Sprintf("INT64_C(%d), 1", n)
			}
			return "0, 0"
		},
		"value": func(c ep.Config, name string) ep.Value { return c.Values[name] },
		"bit":   bit,
	}, newView(t, base))
	return []File{{base + ".h", src}}, err
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cString quotes bytes for C. Octal escapes end after three digits, unlike
// hexadecimal ones, and '?' is escaped against trigraphs.
func cString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(`"\?`, c) >= 0 {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

func cConstant(word string) string {
	return strings.ToUpper(strings.ReplaceAll(word, "-", "_"))
}

func joinInts(ns any) string {
	var parts []string
	switch ns := ns.(type) {
	case []int:
		for _, n := range ns {
			parts = append(parts, fmt.Sprint(n))
		}
	case [table.KeyFields]int:
		return joinInts(ns[:])
	}
	return strings.Join(parts, ", ")
}
