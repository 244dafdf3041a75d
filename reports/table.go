package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Table is what a command prints. Text, CSV, JSON, Markdown and the HTML page
// are renderings of it.
type Table struct {
	Name     string   // lower-case word, unique among the tables of one command
	Title    string   // one line, may be empty
	Columns  []Column //
	Rows     [][]Cell // [row][column]
	Notes    []string // what the columns mean
	Warnings []string // why some numbers cannot be trusted
}

// Column describes one column. Names are unique within a table.
type Column struct {
	Name  string // lower-case words
	Unit  string // us, GB/s, %, x, or empty
	Align Align
	// Drop orders the columns that a narrow terminal leaves out: the largest
	// first, equal ones together, 0 never. Other renderings show all columns.
	Drop int
	// Key marks a column that tells rows apart. Where a terminal leaves it out
	// and its values differ, rows are grouped under its values.
	Key bool
	// Lead marks a column without which the others say nothing of a row. A table that is
	// cut into panels has it in each, and those with Key.
	Lead bool
	// Spells names the column whose values this one spells out: configs behind
	// ids. Where a terminal leaves it out, a few values stand below the table.
	Spells string
}

// Align is which side a column's cells keep to.
type Align int

const (
	Left Align = iota
	Right
)

// Mark is emphasis that a rendering may show. It says nothing that the text
// does not say.
type Mark int

const (
	Plain Mark = iota
	Good
	Bad
	Dim
)

// Cell is one value: a string, bool, int, float64, or nil where there is none.
type Cell struct {
	Text  string // for people
	Value any    // for programs, in the column's unit, numbers to six figures
	Mark  Mark
}

// Words and Numbers declare a column; Words keep left, Numbers right.
func Words(name string) Column { return Column{Name: name} }

// Numbers declares a right-aligned column with a unit, which may be empty.
func Numbers(name, unit string) Column { return Column{Name: name, Unit: unit, Align: Right} }

// Dropped returns c with its Drop.
func (c Column) Dropped(order int) Column {
	c.Drop = order
	return c
}

// Keyed returns c as a key column.
func (c Column) Keyed() Column {
	c.Key = true
	return c
}

// Leading returns c as a column of every panel.
func (c Column) Leading() Column {
	c.Lead = true
	return c
}

// Spelling marks a column that spells out the values of another one.
func (c Column) Spelling(name string) Column {
	c.Spells = name
	return c
}

// Header is the column's name with its unit.
func (c Column) Header() string {
	if c.Unit == "" {
		return c.Name
	}
	return c.Name + " (" + c.Unit + ")"
}

// Add appends a row. It panics when the row does not fit the columns, which
// is a mistake in the program and not in its input.
func (t *Table) Add(cells ...Cell) {
	if len(cells) != len(t.Columns) {
		panic(fmt.Sprintf("table %s: %d cells for %d columns", t.Name, len(cells), len(t.Columns)))
	}
	t.Rows = append(t.Rows, cells)
}

// Note adds notes, leaving out empty ones.
func (t *Table) Note(notes ...string) {
	for _, n := range notes {
		if n != "" {
			t.Notes = append(t.Notes, n)
		}
	}
}

// Warn adds a warning unless the table has it.
func (t *Table) Warn(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(t.Warnings, s) {
		t.Warnings = append(t.Warnings, s)
	}
}

// None is the cell of a value that does not exist.
func None() Cell { return Cell{Text: "-", Mark: Dim} }

// Str is a word or a sentence.
func Str(s string) Cell { return Cell{Text: s, Value: s} }

// Int is a count.
func Int(n int) Cell { return Cell{Text: strconv.Itoa(n), Value: n} }

// Bool prints yes or no.
func Bool(b bool) Cell {
	if b {
		return Cell{Text: "yes", Value: true}
	}
	return Cell{Text: "no", Value: false}
}

// Float prints v with a fixed number of decimals. Programs get six figures:
// more than any clock resolves, and none of binary arithmetic's.
func Float(v float64, decimals int) Cell {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return None()
	}
	value, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64) // its own spelling
	return Cell{Text: strconv.FormatFloat(v, 'f', decimals, 64), Value: value}
}

// Gain shows a gain over the default with four figures: three decimals of one
// below 10.
func Gain(v float64) Cell {
	if v >= 10 {
		return Float(v, 2)
	}
	return Float(v, 3)
}

// Micros shows seconds in a column of unit us.
func Micros(seconds float64) Cell { return Figures(seconds * 1e6) }

// Figures prints v with about four figures.
func Figures(v float64) Cell {
	switch abs := math.Abs(v); {
	case abs < 100:
		return Float(v, 2)
	case abs < 10_000:
		return Float(v, 1)
	}
	return Float(v, 0)
}

// Percent shows a fraction in a column of unit %.
func Percent(fraction float64) Cell { return Float(fraction*100, 1) }

// Marked returns c with emphasis.
func (c Cell) Marked(m Mark) Cell {
	c.Mark = m
	return c
}
