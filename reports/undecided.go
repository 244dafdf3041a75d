package reports

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// verdictCell returns the cell with a search's verdict, or with the cause if nothing could be
// compared. It shows the verdict also for noisy and host-bound cases, because notes explain
// these.
func verdictCell(s *record.Search) Cell {
	d := s.Decision
	switch d.Cause {
	case "", record.Noisy, record.HostBound:
		return Str(string(d.Verdict)).Marked(verdictMarks[d.Verdict])
	}
	return Str(string(d.Cause)).Marked(Bad)
}

// speedCell returns the cell with the busiest rank's bytes divided by the winner's median time,
// in GB/s. The wire limit (or the memory limit of an activation) is computed from the same
// bytes.
func speedCell(c *Case) Cell {
	if c.Bytes() == 0 || !(c.Search.Times.Median > 0) {
		return None()
	}
	return Float(float64(c.Bytes())/c.Search.Times.Median/1e9, 3)
}

// challenged reports whether a search kept the default although it measured another config. In
// that case the decision's gain is 1, the default's gain over itself, and was not measured.
func challenged(s record.Search) bool {
	d := s.Decision
	return s.OK() && d.KeepsDefault() && d.Challenger.Key() != d.Default.Key() && d.ChallengerGain.Mid > 0
}

// challengerColumn shows the best config other than the default, with its gain, if the default
// won. A narrow terminal leaves the column out and lists its values below the table, one line
// for each row.
var challengerColumn = winnerColumn{Words("challenger").Dropped(21).Spelling("row"), func(c *Case) Cell {
	d := c.Search.Decision
	if !challenged(*c.Search) {
		return Cell{}
	}
	gain := spelledGain(d.ChallengerGain)
	return Cell{Text: fmt.Sprintf("%s (%s) %s", d.Challenger.Difference(d.Default), d.Challenger.ID(), gain), Value: d.Challenger.Key() + " " + gain}
}}

// undecidedNotes explains the challenger column and the causes of missing verdicts.
func undecidedNotes(cases []*Case, columns []Column) []string {
	var out []string
	if slices.ContainsFunc(columns, func(c Column) bool { return c.Name == "challenger" }) {
		out = append(out, "challenger: the best other config if the default stays, and its gain: inside the band (same), or neither clear of the band nor inside it (undecided)")
	}
	for _, x := range []struct {
		cause   record.Cause
		verdict record.Verdict
		text    string
	}{
		{record.Noisy, record.Undecided, "the default differs from itself by more than the band, so this machine cannot show a difference as small as the band"},
		{record.HostBound, record.Same, "the default takes hardly longer than an empty kernel, so no parameter matters"},
	} {
		n := 0
		for _, c := range cases {
			if c.Search.Decision.Cause == x.cause {
				n++
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s: in %s %s", x.verdict, ep.Count(n, "case"), x.text))
		}
	}
	return out
}
