package html

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/epbench/epbench/reports"
)

// render writes a table as HTML. A template was tried: most bytes and time of a
// large page went into closing tags, which HTML does not need.
func render(t reports.Table) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="table" data-name="%s"><div class="scroll" tabindex="0" role="region" aria-label="%s"><table><caption>%s</caption><thead><tr>`,
		esc(t.Name), esc(t.Title+", scrolls sideways"), esc(t.Title))
	for _, c := range t.Columns {
		unit := ""
		if c.Unit != "" {
			unit = ` <span class="unit">` + esc(c.Unit) + `</span>`
		}
		fmt.Fprintf(&b, `<th scope="col"%s>%s%s`, class(c.Align, reports.Plain), esc(c.Name), unit)
	}
	b.WriteString("<tbody>")
	for _, row := range t.Rows {
		b.WriteString("\n<tr>")
		for i, c := range row {
			fmt.Fprintf(&b, "<td%s>%s", class(t.Columns[i].Align, c.Mark), breakable(c.Text))
		}
	}
	b.WriteString("</table></div>")
	for _, n := range t.Notes {
		fmt.Fprintf(&b, `<p class="note">%s</p>`, breakable(n))
	}
	for _, n := range t.Warnings {
		fmt.Fprintf(&b, `<p class="warning">Warning: %s</p>`, esc(n))
	}
	b.WriteString("</div>")
	return template.HTML(b.String())
}

func class(a reports.Align, m reports.Mark) string {
	var words []string
	if a == reports.Right {
		words = append(words, "n")
	}
	if name := (map[reports.Mark]string{reports.Good: "good", reports.Bad: "bad", reports.Dim: "dim"})[m]; name != "" {
		words = append(words, name)
	}
	if len(words) == 0 {
		return ""
	}
	return ` class="` + strings.Join(words, " ") + `"`
}

// breakable lets a browser break config keys after their commas.
func breakable(s string) string { return strings.ReplaceAll(esc(s), ",", ",<wbr>") }

func esc(s string) string { return template.HTMLEscapeString(s) }
