package reports

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
)

func verdictCell(s *record.Search) Cell {
	d := s.Decision
	switch d.Cause {
	case "", record.Noisy, record.HostBound:
		return Str(string(d.Verdict)).Marked(verdictMarks[d.Verdict])
	}
	return Str(string(d.Cause)).Marked(Bad)
}

// speedCell shows the busiest rank's bytes divided by the winner's median time, in GB/s.
func speedCell(c *Case) Cell {
	if c.Bytes() == 0 || !(c.Search.Times.Median > 0) {
		return None()
	}
	return Float(float64(c.Bytes())/c.Search.Times.Median/1e9, 3)
}

// challenged reports whether the default won against another config, the challenger.
func challenged(s record.Search) bool {
	d := s.Decision
	return s.OK() && d.KeepsDefault() && d.Challenger.Key() != d.Default.Key() && d.ChallengerGain.Mid > 0
}

var challengerColumn = winnerColumn{Words("challenger").Dropped(21).WithIDs("row"), func(c *Case) Cell {
	d := c.Search.Decision
	if !challenged(*c.Search) {
		return Cell{}
	}
	gain := spelledGain(d.ChallengerGain)
	return Cell{Text: fmt.Sprintf("%s (%s) %s", d.Challenger.Difference(d.Default), d.Challenger.ID(), gain), Value: d.Challenger.Key() + " " + gain}
}}

func undecidedNotes(cases []*Case, columns []Column) []string {
	var out []string
	if slices.ContainsFunc(columns, func(c Column) bool { return c.Name == "challenger" }) {
		out = append(out, "challenger: where the default won, the best other config and its gain. If the gain's interval lies inside the band, the verdict is same; if it crosses an edge of the band, the verdict is undecided")
	}
	for _, x := range []struct {
		cause   record.Cause
		verdict record.Verdict
		text    string
	}{
		{record.Noisy, record.Undecided, "two measurements of the default differ by more than the band, so this machine is too noisy to show differences as small as the band"},
		{record.HostBound, record.Same, "the default takes hardly longer than an empty kernel, so no other config can be much faster"},
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
