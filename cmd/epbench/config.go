package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/record"
	"github.com/epbench/epbench/tune/table"
)

// configUsage says how configs are spelled, for the help of flags.
const configUsage = "id (d7f2), difference (algo=dedup sms=64), kernel:name=value,name=value, or RUN#ROW"

// readConfigs reads one config or several for every problem. Problems of
// another op than the configs are left out; those that remain accept reduced
// precision where a config needs it.
func readConfigs(flag string, b kernels.Backend, problems []ep.Problem, specs ...string) (kept []ep.Problem, configs map[ep.Problem][]ep.Config, err error) {
	for i := range specs {
		if specs[i], err = fromRow(specs[i]); err != nil {
			return nil, nil, usagef("%s: %w", flag, err)
		}
	}
	configs = map[ep.Problem][]ep.Config{}
	var first error
	for _, p := range problems {
		read, err := readOf(b, &p, specs)
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		kept, configs[p] = append(kept, p), read
	}
	if len(kept) == 0 {
		text, _, _ := strings.Cut(first.Error(), "\n")
		return nil, nil, usagef("%s: %s", flag, text)
	}
	return kept, configs, nil
}

func readOf(b kernels.Backend, p *ep.Problem, specs []string) ([]ep.Config, error) {
	var out []ep.Config
	for _, s := range specs {
		c, err := kernels.ParseConfig(b.Kernels(), b.Machine(), *p, s)
		if err != nil {
			return nil, err
		}
		k, err := kernels.Find(b.Kernels(), p.Op, c.Kernel)
		if err == nil && k.Changes(kernels.Precision, k.DefaultConfig(b.Machine(), *p), c) != "" {
			p.Precision = ep.Reduced
		}
		out = append(out, c)
	}
	return out, nil
}

// fromRow replaces RUN#ROW, a row of what a run decided or of a table, by the
// full spelling of its config. Rows count from 1, as printed.
func fromRow(s string) (string, error) {
	at := strings.LastIndexByte(s, '#')
	if at < 0 {
		return s, nil
	}
	n, err := strconv.Atoi(s[at+1:])
	if err != nil {
		return "", fmt.Errorf("%q: after # comes the number of a row, as in RUN#3", s)
	}
	rows, err := configRows(s[:at])
	if err == nil && (n < 1 || n > len(rows)) {
		err = fmt.Errorf("%s has rows 1 to %d, not %d", s[:at], len(rows), n)
	}
	if err != nil {
		return "", err
	}
	return rows[n-1].Key(), nil
}

// configRows lists the configs of a run directory, one a search, or those of a
// table file, one a row.
func configRows(path string) ([]ep.Config, error) {
	var out []ep.Config
	if tablePath(path) == path {
		t, err := table.LoadFile(path, true)
		if err != nil {
			return nil, err
		}
		for _, r := range t.Rows {
			out = append(out, r.Config)
		}
		return out, nil
	}
	run, err := record.ReadRun(path)
	if err != nil {
		return nil, err
	}
	for _, s := range run.Searches {
		out = append(out, s.Decision.Config)
	}
	return out, nil
}
