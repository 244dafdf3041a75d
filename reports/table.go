package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/epbench/epbench/tune/record"
)

// Table is the output of a command before rendering.
type Table struct {
	Name     string // lower-case, unique in a command
	Title    string
	Columns  []Column
	Rows     [][]Cell // [row][column]
	Notes    []string // explain the columns
	Warnings []string // which numbers cannot be trusted, and why
}

// Column describes one column. Its name is unique in a table.
type Column struct {
	Name  string // lower-case words
	Unit  string // us, GB/s, %, x, or empty
	Align Align
	// Drop says when a narrow terminal leaves out the column. Columns with the largest Drop go first. A column with
	// Drop 0 stays.
	Drop int
	// Key marks a column that identifies rows. If a terminal has no room for the column, the output groups the rows
	// by the column's values.
	Key bool
	// Lead marks a column that every panel repeats. If a table is too wide, the output splits its columns into panels.
	Lead bool
	// IDs names the column with the ids of the things that this column shows in full, or is empty.
	IDs string
}

// Align is the side to which cells are aligned.
type Align int

const (
	Left Align = iota
	Right
)

// Mark is emphasis. It carries no information.
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
	Value any    // for programs: string, bool, int, float64 or nil
	Mark  Mark
}

// Words declares a left-aligned column.
func Words(name string) Column { return Column{Name: name} }

// Numbers declares a right-aligned column.
func Numbers(name, unit string) Column { return Column{Name: name, Unit: unit, Align: Right} }

// Dropped returns c with a value for Drop.
func (c Column) Dropped(order int) Column {
	c.Drop = order
	return c
}

// Keyed returns c with Key set.
func (c Column) Keyed() Column {
	c.Key = true
	return c
}

// Leading returns c with Lead set.
func (c Column) Leading() Column {
	c.Lead = true
	return c
}

// WithIDs returns c with IDs set to the name of a column.
func (c Column) WithIDs(name string) Column {
	c.IDs = name
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

// Warn adds a warning once.
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

// Float returns a cell with v, rounded to `decimals` in Text. NaN and infinities become None.
func Float(v float64, decimals int) Cell {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return None()
	}
	value, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return Cell{Text: strconv.FormatFloat(v, 'f', decimals, 64), Value: value}
}

// Gain returns the cell of a gain.
func Gain(v float64) Cell {
	if v >= 10 {
		return Float(v, 2)
	}
	return Float(v, 3)
}

// GainCells returns the cells of a gain and its interval.
func GainCells(g record.Interval) []Cell {
	if g == record.One {
		return []Cell{Gain(1), None(), None()}
	}
	return []Cell{Gain(g.Mid), Gain(g.Low), Gain(g.High)}
}

// Micros returns seconds as a cell in us.
func Micros(seconds float64) Cell { return Figures(seconds * 1e6) }

// Figures returns a cell with about four digits of v.
func Figures(v float64) Cell {
	switch abs := math.Abs(v); {
	case abs < 100:
		return Float(v, 2)
	case abs < 10_000:
		return Float(v, 1)
	}
	return Float(v, 0)
}

// Percent returns the cell of a fraction, in %.
func Percent(fraction float64) Cell { return Float(fraction*100, 1) }

// Marked returns c with a mark.
func (c Cell) Marked(m Mark) Cell {
	c.Mark = m
	return c
}
