package export

import (
	"strconv"
	"strings"
	"text/template"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

func exportPython(t *table.Table, base string) ([]File, error) {
	src, err := render("table.py.tmpl", template.FuncMap{
		"py": strconv.QuoteToASCII, "join": joinInts,
		"bool": func(b bool) string { return map[bool]string{true: "True", false: "False"}[b] },
		"tuple": func(words []string) string {
			out := make([]string, len(words))
			for i, w := range words {
				out[i] = strconv.QuoteToASCII(w)
			}
			return "(" + strings.Join(out, ", ") + ",)"
		},
		"literal": func(c ep.Config, name string) string {
			if v := c.Values[name]; v != "" {
				if _, ok := v.Int(); !ok {
					return strconv.QuoteToASCII(string(v))
				}
			}
			return string(c.Values[name])
		},
	}, newView(t, base))
	return []File{{base + ".py", src}}, err
}
