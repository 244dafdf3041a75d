package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/epbench/epbench/tune/testfile"
)

// line is a row of a printed table. It maps column names, without units, to cells.
type line map[string]string

func (l line) key() string {
	precision := l["precision"]
	if precision == "" {
		precision = "full"
	}
	return strings.Join([]string{l["op"], precision, l["tokens"], l["routing"] + l["winner of"]}, " ")
}

var units = regexp.MustCompile(`( \((us|x|%|GB/s|tokens)\)|_(us|x|percent|GB_per_s|tokens))$`)

func makeLines(names []string, rows [][]string) []line {
	var out []line
	for _, cells := range rows {
		l := line{}
		for i, name := range names {
			l[strings.ReplaceAll(units.ReplaceAllString(name, ""), "_", " ")] = cells[i]
		}
		out = append(out, l)
	}
	return out
}

var (
	gaps    = regexp.MustCompile(` {2,}`)
	htmlRow = regexp.MustCompile(`(?s)<tr>(.*?)(?:\n|</table>|<tbody>)`)
	cellTag = regexp.MustCompile(`<t[hd][^>]*>`)
	anyTag  = regexp.MustCompile(`<[^>]*>`)
)

func textTable(t *testing.T, text, title string) []line {
	t.Helper()
	_, rest, found := strings.Cut(text, title)
	lines := strings.Split(rest, "\n")
	if !found || len(lines) < 5 {
		t.Fatalf("no table %q in\n%s", title, text)
	}
	names := gaps.Split(strings.TrimSpace(lines[0]), -1) // the next two lines hold units and a rule
	var rows [][]string
	for _, l := range lines[3:] {
		cells := gaps.Split(strings.TrimSpace(l), -1)
		if len(cells) != len(names) {
			break
		}
		rows = append(rows, cells)
	}
	return makeLines(names, rows)
}

func markdownTable(t *testing.T, text, title string) []line {
	t.Helper()
	_, rest, found := strings.Cut(text, "### "+title)
	if !found {
		t.Fatalf("no table %q in\n%s", title, text)
	}
	var rows [][]string
	rest, _, _ = strings.Cut(strings.TrimSpace(rest), "\n\n")
	for l := range strings.Lines(rest) {
		rows = append(rows, strings.Split(strings.Trim(l, "| \n"), " | "))
	}
	return makeLines(rows[0], rows[2:])
}

func htmlTable(t *testing.T, page, name string) []line {
	t.Helper()
	_, rest, found := strings.Cut(page, `data-name="`+name+`"`)
	table, _, end := strings.Cut(rest, "</table>")
	if !found || !end {
		t.Fatalf("no table %q in the page", name)
	}
	var rows [][]string
	for _, m := range htmlRow.FindAllStringSubmatch(table+"</table>", -1) {
		var cells []string
		for i, cell := range cellTag.Split(m[1], -1) {
			if i > 0 {
				cell, _, _ = strings.Cut(cell, ` <span class="unit">`)
				cells = append(cells, html.UnescapeString(anyTag.ReplaceAllString(cell, "")))
			}
		}
		rows = append(rows, cells)
	}
	return makeLines(rows[0], rows[1:])
}

func csvTable(t *testing.T, text, name string) []line {
	t.Helper()
	_, rest, found := strings.Cut(text, "# "+name+"\n")
	rest, _, _ = strings.Cut(rest, "\n\n")
	rows, err := csv.NewReader(strings.NewReader(rest)).ReadAll()
	if !found || err != nil {
		t.Fatalf("no table %q, %v, in\n%s", name, err, text)
	}
	return makeLines(rows[0], rows[1:])
}

func jsonTable(t *testing.T, text, name string) []line {
	t.Helper()
	var tables []struct {
		Name string
		Rows []map[string]any
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tables); err != nil {
		t.Fatal(err)
	}
	var out []line
	for _, table := range tables {
		for _, r := range table.Rows {
			var names, cells []string
			for k, v := range r {
				names, cells = append(names, k), append(cells, fmt.Sprint(v))
			}
			if table.Name == name {
				out = append(out, makeLines(names, [][]string{cells})...)
			}
		}
	}
	return out
}

type picture struct{ description, drawn string }

func pictures(t *testing.T, dir string) map[string]picture {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.svg"))
	out := map[string]picture{}
	for _, path := range paths {
		raw := testfile.Read(t, path)
		_, rest, _ := strings.Cut(string(raw), "<desc>")
		description, drawn, _ := strings.Cut(rest, "</desc>")
		out[strings.TrimSuffix(filepath.Base(path), ".svg")] = picture{
			html.UnescapeString(description), " " + strings.Join(strings.Fields(html.UnescapeString(anyTag.ReplaceAllString(drawn, " "))), " ") + " "}
	}
	return out
}
