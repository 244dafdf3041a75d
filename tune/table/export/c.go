package export

import (
	"fmt"
	"strings"
	"text/template"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

// exportC writes one header, with names that begin with `base`.
func exportC(t *table.Table, base string) ([]File, error) {
	src, err := render("table.h.tmpl", template.FuncMap{
		"c": cString, "upper": upper, "join": joinInts,
		"number": func(v ep.Value) string {
			if n, ok := v.Int(); ok {
				return fmt.Sprintf("INT64_C(%d), 1", n)
			}
			return "0, 0"
		},
		"value": func(c ep.Config, name string) ep.Value { return c.Values[name] },
	}, newView(t, base))
	return []File{{base + ".h", src}}, err
}

// upper returns the name of a constant for a word such as hot-rank.
func upper(word string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ":", "_").Replace(word))
}

// cString quotes bytes for C. It uses octal escapes, because hexadecimal escapes have no fixed length. It escapes
// question marks, because two of them could begin a trigraph.
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

func joinInts(key [table.KeyFields]int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(key), " ", ", "), "[]")
}
