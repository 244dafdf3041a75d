package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/record"
)

// Table is the output of a command, before it is rendered as text, CSV, JSON, Markdown or HTML.
type Table struct {
	Name     string // lower-case, unique in a command
	Title    string // may be empty
	Columns  []Column
	Rows     [][]Cell // [row][column]
	Notes    []string // explain the columns
	Warnings []string // which numbers cannot be trusted, and why
}

// Column describes one column; its name is unique in a table.
type Column struct {
	Name  string // lower-case words
	Unit  string // us, GB/s, %, x, or empty
	Align Align
	// Drop orders what a narrow terminal leaves out: the largest first, equal ones together, 0 never.
	Drop int
	// Key marks a column that identifies rows. A terminal that leaves it out groups rows by its values.
	Key bool
	// Lead marks a column that every panel of a wide table repeats, as with Key.
	Lead bool
	// Spells names the column, such as ids, whose values this column spells out. A terminal that leaves it out may
	// list them below.
	Spells string
}

// Align is the side to which a column's cells are aligned.
type Align int

const (
	Left Align = iota
	Right
)

// Mark is emphasis without information of its own.
type Mark int

const (
	Plain Mark = iota
	Good
	Bad
	Dim
)

// Cell is one value.
type Cell struct {
	Text  string // for people
	Value any    // for programs, in the column's unit: string, bool, int, float64 (six digits) or nil
	Mark  Mark
}

// Words declares a left-aligned column.
func Words(name string) Column { return Column{Name: name} }

// Numbers declares a right-aligned column; the unit may be empty.
func Numbers(name, unit string) Column { return Column{Name: name, Unit: unit, Align: Right} }

// Dropped returns c with Drop set to order.
func (c Column) Dropped(order int) Column {
	c.Drop = order
	return c
}

// Keyed returns c as a key column.
func (c Column) Keyed() Column {
	c.Key = true
	return c
}

// Leading returns c as a column that every panel repeats.
func (c Column) Leading() Column {
	c.Lead = true
	return c
}

// Spelling returns c with Spells set to name.
func (c Column) Spelling(name string) Column {
	c.Spells = name
	return c
}

// Header returns the column's name with its unit.
func (c Column) Header() string {
	if c.Unit == "" {
		return c.Name
	}
	return c.Name + " (" + c.Unit + ")"
}

// Add appends a row. It panics if the row does not fit the columns.
func (t *Table) Add(cells ...Cell) {
	if len(cells) != len(t.Columns) {
		panic(fmt.Sprintf("table %s: %d cells for %d columns", t.Name, len(cells), len(t.Columns)))
	}
	t.Rows = append(t.Rows, cells)
}

// Note adds notes, except empty ones.
func (t *Table) Note(notes ...string) {
	for _, n := range notes {
		if n != "" {
			t.Notes = append(t.Notes, n)
		}
	}
}

// Warn adds a warning unless the table already has it.
func (t *Table) Warn(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(t.Warnings, s) {
		t.Warnings = append(t.Warnings, s)
	}
}

// None returns the cell of a missing value.
func None() Cell { return Cell{Text: "-", Mark: Dim} }

// Str returns a cell of text.
func Str(s string) Cell { return Cell{Text: s, Value: s} }

// Int returns a cell of a count.
func Int(n int) Cell { return Cell{Text: strconv.Itoa(n), Value: n} }

// Bool returns a cell of yes or no.
func Bool(b bool) Cell {
	if b {
		return Cell{Text: "yes", Value: true}
	}
	return Cell{Text: "no", Value: false}
}

// Float returns a cell with v. Text has the given decimals; the value has six digits, more than clocks resolve. NaN
// and infinities become None.
func Float(v float64, decimals int) Cell {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return None()
	}
	value, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64) // cannot fail
	return Cell{Text: strconv.FormatFloat(v, 'f', decimals, 64), Value: value}
}

// Gain returns a gain with three decimals, from 10 on with two.
func Gain(v float64) Cell {
	if v >= 10 {
		return Float(v, 2)
	}
	return Float(v, 3)
}

// GainCells returns a gain and its interval. record.One was not measured and gets no interval.
func GainCells(g record.Interval) []Cell {
	if g == record.One {
		return []Cell{Gain(1), None(), None()}
	}
	return []Cell{Gain(g.Mid), Gain(g.Low), Gain(g.High)}
}

// Micros returns seconds as a cell in us.
func Micros(seconds float64) Cell { return Figures(seconds * 1e6) }

// Figures returns a cell with v in about four digits.
func Figures(v float64) Cell {
	switch abs := math.Abs(v); {
	case abs < 100:
		return Float(v, 2)
	case abs < 10_000:
		return Float(v, 1)
	}
	return Float(v, 0)
}

// Percent returns a fraction as a cell in %.
func Percent(fraction float64) Cell { return Float(fraction*100, 1) }

// Marked returns c with emphasis m.
func (c Cell) Marked(m Mark) Cell {
	c.Mark = m
	return c
}
