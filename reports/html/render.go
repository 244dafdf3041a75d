package html

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/epbench/epbench/reports"
)

// render leaves out optional closing tags, to save bytes.
func render(t reports.Table) template.HTML {
	var b strings.Builder
	fmt.Fprintf(&b, `<div class="table" data-name="%s">%s%s<div class="scroll" tabindex="0" role="region" aria-label="%s"><table><caption>%s</caption><thead><tr>`,
		esc(t.Name), cards(t), hidden(t), esc(t.Title+", scrolls sideways"), esc(t.Title))
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

// cards returns a style that shows column names in the cells on phones.
func cards(t reports.Table) string {
	var b strings.Builder
	b.WriteString("<style>@media screen and (max-width:31rem){")
	for i, c := range t.Columns {
		fmt.Fprintf(&b, `[data-name="%s"] td:nth-child(%d)::before{content:"%s"}`, esc(t.Name), i+1, inCSS.Replace(c.Header()))
	}
	b.WriteString("}</style>")
	return b.String()
}

var inCSS = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "<", `\3c `, "\n", " ", "\r", " ", "\f", " ")

// columnsShown is the number of columns that fit in a window of 1,280 pixels.
const columnsShown = 14

// hidden returns a style that hides the least important columns, and a checkbox that shows all columns.
func hidden(t reports.Table) string {
	var rules []string
	for drop := 99; drop > 0 && len(t.Columns)-len(rules) > columnsShown; drop-- {
		for i, c := range t.Columns {
			if c.Drop == drop {
				rules = append(rules, fmt.Sprintf(":nth-child(%d)", i+1))
			}
		}
	}
	if rules == nil {
		return ""
	}
	return fmt.Sprintf(`<style>[data-name="%s"]:not(:has(.all:checked)) :is(th,td):is(%s){display:none}@media print{[data-name="%s"] .choose{display:none}}</style>`+
		`<label class="choose"><input class="all" type="checkbox"> all %d columns</label>`, esc(t.Name), strings.Join(rules, ","), esc(t.Name), len(t.Columns))
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

var breaks = strings.NewReplacer(",", ",<wbr>", ":", ":<wbr>", "+", "+<wbr>")

func breakable(s string) string {
	if strings.IndexByte(s, '=') < 0 { // no config
		return esc(s)
	}
	return breaks.Replace(esc(s))
}

func esc(s string) string { return template.HTMLEscapeString(s) }
