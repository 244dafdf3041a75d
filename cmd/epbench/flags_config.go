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

const (
	configUsage      = "an id (d7f2), a difference from the default (algo=dedup sms=64), a full spelling (kernel:name=value,...), "
	configUsageRun   = configUsage + "RUN#ROW with the number of a winner, or TABLE#ROW with the number of a row"
	configUsageTable = configUsage + "or TABLE#ROW with the row number in table show"
)

// readConfigs reads `specs` as configs for each problem. It drops problems for which a spec names no config. If a
// config needs reduced precision, readConfigs returns its problem with ep.Reduced.
func readConfigs(flag string, b kernels.Backend, problems []ep.Problem, specs ...string) (kept []ep.Problem, configs map[ep.Problem][]ep.Config, err error) {
	for i := range specs {
		if specs[i], err = fromRow(specs[i], winnerRows); err != nil {
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
		for _, c := range read {
			if err := legalAmong(b.Kernels())(b.Machine(), p, c); err != nil {
				return nil, nil, usagef("%s: %w", flag, err)
			}
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

// fromRow replaces NAME#ROW by the full text of that row's config. ROW counts from 1.
func fromRow(s string, rows func(string) ([]ep.Config, error)) (string, error) {
	at := strings.LastIndexByte(s, '#')
	if at < 0 {
		return s, nil
	}
	n, err := strconv.Atoi(s[at+1:])
	if err != nil {
		return "", fmt.Errorf("%q: after # there must be the number of a row, for example RUN#3", s)
	}
	all, err := rows(s[:at])
	if err == nil && (n < 1 || n > len(all)) {
		err = fmt.Errorf("%s has rows 1 to %d, not %d", s[:at], len(all), n)
	}
	if err != nil {
		return "", err
	}
	if all[n-1].IsDefault() {
		return "default", nil
	}
	return all[n-1].Key(), nil
}

// winnerRows returns the winners of a run in the order of report, or the configs of a table.
func winnerRows(name string) ([]ep.Config, error) {
	if tablePath(name) == name {
		return tableRows(name)
	}
	run, err := record.ReadRun(name)
	if err != nil {
		return nil, err
	}
	var out []ep.Config
	for _, s := range run.Searches {
		out = append(out, s.Decision.Config)
	}
	return out, nil
}

func tableRows(name string) ([]ep.Config, error) {
	t, err := loadTable(name, true)
	if err != nil {
		return nil, err
	}
	var out []ep.Config
	for i := range t.Rows {
		out = append(out, rowConfig(t.Header, &t.Rows[i]))
	}
	return out, nil
}

// rowConfig returns the config that a row launches at its largest token count.
func rowConfig(h table.Header, r *table.Row) ep.Config {
	if !r.Config.IsDefault() {
		return r.Config
	}
	d, err := kernels.Default(knownKernels(h.Machine.Backend), h.Machine, r.Key.Problem(r.Hi), h.MaxSMs)
	if err != nil {
		return r.Config // unknown backend
	}
	return d
}
