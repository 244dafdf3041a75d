package export

import (
	"bytes"
	"go/format"
	"text/template"

	"github.com/epbench/epbench/tune/table"
)

// exportGo writes a Go file and the table that it embeds.
func exportGo(t *table.Table, base string) ([]File, error) {
	src, err := render("table.go.tmpl", template.FuncMap{"base": func() string { return base }}, newView(t, base))
	if err != nil {
		return nil, err
	}
	if src, err = format.Source(src); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	if _, err := t.WriteTo(&data); err != nil {
		return nil, err
	}
	return []File{{base + ".go", src}, {base + ".json", data.Bytes()}}, nil
}
