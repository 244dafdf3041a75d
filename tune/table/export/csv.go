package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/epbench/epbench/tune/table"
)

// exportCSV writes one line for each row. Times are in seconds for one call.
func exportCSV(t *table.Table, base string) ([]File, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	header := append(table.Fields(), "lo", "hi", "default", "config", "clock", "median_s", "p10_s", "p90_s",
		"rounds", "gain", "gain_low", "gain_high", "tried", "ties", "regret", "routings", "tokens", "complete", "date", "timed_at")
	w.Write(header)
	for _, r := range t.Rows {
		w.Write(append(r.Key.Words(), rowWords(r)...))
	}
	w.Flush()
	return []File{{base + ".csv", b.Bytes()}}, w.Error()
}

func rowWords(r table.Row) []string {
	e := r.Evidence
	return []string{strconv.Itoa(r.Lo), strconv.Itoa(r.Hi), strconv.FormatBool(r.Default), r.Config.Key(),
		e.Clock, number(e.Median), number(e.P10), number(e.P90), strconv.Itoa(e.Rounds),
		number(e.Gain), number(e.GainLow), number(e.GainHigh), strconv.Itoa(e.Tried), strconv.Itoa(e.Ties),
		number(e.Regret), strings.Join(e.Routings, " "), strings.Trim(fmt.Sprint(e.Tokens), "[]"),
		strconv.FormatBool(e.Complete), e.Date.UTC().Format(time.RFC3339), timedAt(e)}
}

func timedAt(e table.Evidence) string {
	if at, ok := e.At(); ok {
		return strconv.Itoa(at)
	}
	return ""
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
