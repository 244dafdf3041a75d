package reports

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

// verdictCell is the verdict, or that nothing could be compared. Why a machine could not
// tell is said below the table.
func verdictCell(s *record.Search) Cell {
	d := s.Decision
	switch d.Cause {
	case "", record.Noisy, record.HostBound:
		return Str(string(d.Verdict)).Marked(verdictMarks[d.Verdict])
	}
	return Str(string(d.Cause)).Marked(Bad)
}

// speedCell is how fast the busiest rank's bytes move with the config that won: the bytes
// of the wire limit and of the picture bandwidth.
func speedCell(c *Case) Cell {
	if c.Bytes() == 0 || !(c.Search.Times.Median > 0) {
		return None()
	}
	return Float(float64(c.Bytes())/c.Search.Times.Median/1e9, 3)
}

// undecided reports whether a config besides the default may be faster and was not
// confirmed. The gain of the decision is then the default's own, 1.
func undecided(s record.Search) bool {
	d := s.Decision
	return s.OK() && d.Verdict == record.Undecided && d.KeepsDefault() && d.Challenger.Key() != d.Default.Key()
}

// challengerColumn is the best config besides the default of searches that are undecided,
// with its gain. Where it has no room, lines below the table say it by row.
var challengerColumn = winnerColumn{Words("challenger").Dropped(21).Spelling("row"), func(c *Case) Cell {
	d := c.Search.Decision
	if !undecided(*c.Search) {
		return Cell{}
	}
	gain := spelledGain(d.ChallengerGain)
	return Cell{Text: fmt.Sprintf("%s (%s) %s", d.Challenger.Difference(d.Default), d.Challenger.ID(), gain), Value: d.Challenger.Key() + " " + gain}
}}

// undecidedNotes explain the cases that give no verdict: what may be faster there, and
// what kept the machine from telling.
func undecidedNotes(cases []*Case, columns []Column) []string {
	var out []string
	if slices.ContainsFunc(columns, func(c Column) bool { return c.Name == "challenger" }) {
		out = append(out, "undecided: the default stays, with a gain of 1; challenger: the best config besides it and its gain, which is neither clear of the band nor wholly inside it")
	}
	for _, x := range []struct {
		cause   record.Cause
		verdict record.Verdict
		text    string
	}{
		{record.Noisy, record.Undecided, "the default differs from itself by more than the band, so the machine cannot tell"},
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
