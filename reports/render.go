package reports

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Renderer writes tables in one format.
type Renderer func(io.Writer, ...Table) error

// WriteCSV writes each table with a header of keys such as p90_us. If there are
// several tables, each begins with a line "# name".
func WriteCSV(w io.Writer, tables ...Table) error {
	for i, t := range tables {
		if len(tables) > 1 {
			if _, err := fmt.Fprintf(w, "%s# %s\n", strings.Repeat("\n", min(i, 1)), t.Name); err != nil {
				return err
			}
		}
		c := csv.NewWriter(w)
		record := make([]string, len(t.Columns))
		for j, col := range t.Columns {
			record[j] = columnKey(col)
		}
		c.Write(record)
		for _, row := range t.Rows {
			for j, cell := range row {
				record[j] = plainValue(cell)
			}
			c.Write(record)
		}
		c.Flush()
		if err := c.Error(); err != nil {
			return err
		}
	}
	return nil
}

func columnKey(c Column) string {
	key := strings.ReplaceAll(c.Name, " ", "_")
	unit := strings.NewReplacer("%", "percent", "/", "_per_").Replace(c.Unit)
	if unit == "" {
		return key
	}
	return key + "_" + unit
}

func plainValue(c Cell) string {
	if c.Value == nil {
		return ""
	}
	return fmt.Sprint(c.Value)
}

// WriteJSON writes an array of tables. A row is an object with keys such as p90_us.
func WriteJSON(w io.Writer, tables ...Table) error {
	type object struct {
		Name     string            `json:"name"`
		Title    string            `json:"title"`
		Rows     []json.RawMessage `json:"rows"`
		Notes    []string          `json:"notes,omitempty"`
		Warnings []string          `json:"warnings,omitempty"`
	}
	out := []object{}
	for _, t := range tables {
		o := object{Name: t.Name, Title: t.Title, Rows: []json.RawMessage{}, Notes: t.Notes, Warnings: t.Warnings}
		for _, row := range t.Rows {
			raw, err := rowObject(t.Columns, row)
			if err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
			o.Rows = append(o.Rows, raw)
		}
		out = append(out, o)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

func rowObject(cols []Column, row []Cell) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i, c := range cols {
		b.WriteByte("{,"[min(i, 1)])
		if err := e.Encode(columnKey(c)); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(row[i].Value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// WriteMarkdown writes each table under a heading.
func WriteMarkdown(w io.Writer, tables ...Table) error {
	var b strings.Builder
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		markdown(&b, t)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdown(b *strings.Builder, t Table) {
	if t.Title != "" {
		fmt.Fprintf(b, "### %s\n\n", markdownText(t.Title))
	}
	if len(t.Columns) > 0 {
		markdownRows(b, t)
	}
	for _, n := range t.Notes {
		fmt.Fprintf(b, "\n%s\n", markdownText(n))
	}
	for _, n := range t.Warnings {
		fmt.Fprintf(b, "\n**Warning:** %s\n", markdownText(n))
	}
}

func markdownRows(b *strings.Builder, t Table) {
	head, rule := []string{}, []string{}
	for _, c := range t.Columns {
		head = append(head, markdownCell(c.Header()))
		rule = append(rule, map[Align]string{Left: "---", Right: "---:"}[c.Align])
	}
	markdownRow(b, head)
	markdownRow(b, rule)
	for _, row := range t.Rows {
		line := make([]string, len(row))
		for i, c := range row {
			line[i] = markdownCell(c.Text)
		}
		markdownRow(b, line)
	}
}

func markdownRow(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// markdownText escapes text from files, so that it cannot become HTML, a link or a new line.
func markdownText(s string) string {
	return inMarkdown.Replace(strings.Map(visible, s))
}

var inMarkdown = strings.NewReplacer(`\`, `\\`, "<", "&lt;", "](", `]\(`)

func markdownCell(s string) string { return strings.ReplaceAll(markdownText(s), "|", `\|`) }

func visible(r rune) rune {
	if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
		return ' '
	}
	return r
}
