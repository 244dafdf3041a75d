package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/replay"
)

// allConfigs is the value of --budget that sets no limit.
const allConfigs = "all"

type replayFlags struct {
	tables     tableFlags
	synthetic  bool
	landscape  string
	starts     string
	strategies string
	budgets    string
	replays    int
	noise      float64
	band       float64
	seed       uint64
	each       bool
}

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay [RUN...]",
		Short: "Run search strategies against recorded trials, without hardware",
		Long: `Search many times without measuring. Times and noise come from the trials of runs, from
recordings (replay save), or from the synthetic landscapes in epbench docs search-quality.
The table shows how much slower the winner is than the best config, how often a second
search chooses another winner, and the error of the reported time. RUN may also be a space
that another tuner measured: a T4 file (NAME_T4.json.gz) or a cache file of Kernel Tuner.`,
		Example: `  epbench replay run --strategy all --budget 25,50,100
  epbench replay --synthetic --replays 20
  epbench replay run --strategy bayes --seed 7 --format csv`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.BoolVar(&f.synthetic, "synthetic", false, "draw a synthetic landscape for every replay, instead of RUN")
		s.StringVar(&f.landscape, "landscape", "kernels", "`LANDSCAPE` what --synthetic draws: "+strings.Join(replay.LandscapeNames(), ", "))
		s.StringVar(&f.starts, "starts", string(replay.Named), "`STARTS` configs with which a search begins, in addition to the default: "+strings.Join(names(replay.AllStarts()), ", "))
		s.StringVar(&f.strategies, "strategy", search.DefaultStrategy, strategyListHelp())
		s.StringVar(&f.budgets, "budget", allConfigs, "`BUDGETS` limits of a search: numbers of configs (25,50), a share of its space (10%), times (10s; recorded times count, not the time of replay), or all")
		s.IntVar(&f.replays, "replays", 150, "`N` number of landscapes; each is searched twice")
		f.noise = 0.02
		s.Var(&percentValue{share: &f.noise, most: maxShare, zero: true}, "noise", "`PERCENT` noise of a sample of --synthetic, relative to its time")
		percentVar(s, &f.band, "band", maxBand, "`PERCENT` least difference that counts, such as 3%; default: the band of RUN's machine, or 1% with --synthetic")
		s.Uint64Var(&f.seed, "seed", 1, "`SEED` seed of the random numbers for landscapes, noise and searches")
		s.BoolVar(&f.each, "each", false, "print one row for each search, and search each landscape once")
	})
	f.tables.bind(cmd)
	cmd.AddCommand(newReplaySave(), newReplayClaims(), newReplaySessions(), newReplayScore())
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	draw, protocol, title, err := f.source(args)
	if err != nil {
		return err
	}
	t := replayTable(title)
	if f.each {
		t = eachTable(title)
	}
	if !f.synthetic {
		t.Notes = append(t.Notes, warningsOf(draw, f.replays)...)
	}
	studies, err := f.studies(protocol)
	if err != nil {
		return err
	}
	for _, s := range studies {
		r, err := s.Run(cmd.Context(), draw)
		if err != nil {
			return err
		}
		if f.each {
			addSearches(&t, r, s.Label)
			continue
		}
		t.Add(reports.Str(r.Strategy), reports.Cell{Text: s.Label, Value: r.Budget}, reports.Float(100*r.Regret, 2), reports.Float(100*r.RegretP95, 2), reports.Float(100*r.RegretMax, 2),
			reports.Float(100*r.Flips, 0), reports.Float(100*r.Bias, 2), reports.Float(100*r.FalseFaster, 1),
			reports.Float(r.Evaluations, 0), reports.Float(r.Samples, 0), reports.Int(r.MaxSamples), reports.Float(100*r.Missed, 2), reports.Float(r.Seconds, 2))
	}
	return f.tables.print(cmd, t)
}

// replayTable returns an empty table for strategies and budgets.
func replayTable(title string) reports.Table {
	n := reports.Numbers
	return reports.Table{
		Name: "replay", Title: title,
		Columns: []reports.Column{reports.Words("strategy"), n("budget", "").Leading(), n("regret", "%"), n("p95", "%"), n("worst", "%"), n("flips", "%"),
			n("bias", "%"), n("false", "%"), n("tried", ""), n("samples", ""), n("most", ""),
			n("missed", "%"), n("wall", "s")},
		Notes: []string{
			"regret: by how much the true time of the winner exceeds the true time of the best config; flips: a second search begins with the winner of the first; flips is the share of second searches that choose another config",
			"bias: by how much the reported time of the winner exceeds its true time; false: share of searches that claim a gain over the default although there is none; most: samples of the longest search",
			"missed: by how much the true time of the best config that was tried exceeds the true time of the best config of the space; wall: how long a search would take on the recorded machine, 0 if this is not known",
		},
	}
}

// eachTable returns an empty table for single searches.
func eachTable(title string) reports.Table {
	n := reports.Numbers
	return reports.Table{
		Name: "searches", Title: title,
		Columns: []reports.Column{reports.Words("strategy"), n("budget", "").Leading(), reports.Words("space"), n("search", "").Leading(), n("regret", "%"), n("missed", "%"),
			n("tried", ""), n("samples", ""), n("wall", "s"), reports.Words("config")},
		Notes: []string{
			"regret: by how much the true time of the winner exceeds the true time of the best config; missed: the same for the best config that was tried; wall: how long a search would take on the recorded machine",
		},
	}
}

func addSearches(t *reports.Table, r replay.Report, budget string) {
	for i, x := range r.Searches {
		t.Add(reports.Str(r.Strategy), reports.Cell{Text: budget, Value: r.Budget}, reports.Str(x.Model), reports.Int(i+1), reports.Float(100*x.Regret, 3), reports.Float(100*x.Missed, 3),
			reports.Int(x.Evaluations), reports.Int(x.Samples), reports.Float(x.Seconds, 1), reports.Str(x.Winner.Key()))
	}
}

// source returns the protocol of the searches, the table's title, and a function that draws landscape number i. A
// landscape gives each config a true time and noise.
func (f *replayFlags) source(args []string) (draw func(int) *replay.Model, p search.Protocol, title string, err error) {
	if f.synthetic != (len(args) == 0) {
		return nil, p, "", usagef("replay: give either a run directory or --synthetic")
	}
	if f.synthetic {
		draw, err := replay.ParseLandscape(f.landscape)
		if err != nil {
			return nil, p, "", usagef("--%w", err)
		}
		return func(i int) *replay.Model { return draw(replay.SyntheticNoise(f.noise), f.seed+uint64(i)) },
			search.OnGPU(), fmt.Sprintf("Synthetic landscapes (%s), %.3g %% noise, %d replays", f.landscape, 100*f.noise, f.replays), nil
	}
	starts, err := ep.Find("starts", f.starts, replay.AllStarts(), func(s replay.Starts) string { return string(s) })
	if err != nil {
		return nil, p, "", usagef("--%w", err)
	}
	models, machine, err := replayModels(args, starts)
	if err != nil {
		return nil, p, "", err
	}
	return func(i int) *replay.Model { return models[i%len(models)] }, machine,
		fmt.Sprintf("%s: %d recorded searches, %d replays", strings.Join(args, ", "), len(models), f.replays), nil
}

// studies returns a study for every combination of strategy and budget.
func (f *replayFlags) studies(p search.Protocol) ([]replay.Study, error) {
	if f.band > 0 {
		p.Band = f.band
	}
	if f.replays < 1 || f.replays > 100_000 {
		return nil, usagef("--replays: %d is outside 1 to 100000", f.replays)
	}
	budgets, err := parseReplayBudgets(f.budgets)
	if err != nil {
		return nil, err
	}
	names, err := parseStrategies(f.strategies)
	if err != nil {
		return nil, err
	}
	var out []replay.Study
	for _, name := range names {
		for _, b := range budgets {
			b.Strategy, b.Replays, b.Protocol, b.Seed, b.Once = name, f.replays, p, f.seed, f.each
			out = append(out, b)
		}
	}
	return out, nil
}

func strategyListHelp() string {
	return "`STRATEGIES` comma-separated list, or all: " + strings.Join(search.StrategyNames(), ", ") + ", exec:COMMAND (epbench docs search-own)"
}

func parseStrategies(text string) ([]string, error) {
	if text == "all" {
		return search.StrategyNames(), nil
	}
	out := splitList(text)
	for _, name := range out {
		if _, err := search.ParseStrategy(name); err != nil {
			return nil, usagef("--%w", err)
		}
	}
	return out, nil
}

// parseReplayBudgets makes a study for each item of --budget.
func parseReplayBudgets(text string) ([]replay.Study, error) {
	var out []replay.Study
	if counts, err := ep.ParseInts(text); err == nil && counts[0] > 0 {
		for _, n := range counts {
			out = append(out, replay.Study{Label: strconv.Itoa(n), Budget: n})
		}
		return out, nil
	}
	for _, word := range splitList(text) {
		s := replay.Study{Label: word}
		var err error
		share, isShare := strings.CutSuffix(word, "%")
		switch n, bad := strconv.Atoi(word); {
		case word == allConfigs:
			out = append(out, s)
			continue
		case isShare:
			s.Share, err = strconv.ParseFloat(share, 64)
			s.Share /= 100
		case bad == nil:
			s.Budget = n
		default:
			s.Time, err = time.ParseDuration(word)
		}
		if err != nil || s.Share > 1 || !(s.Budget > 0 || s.Share > 0 || s.Time > 0) {
			return nil, usagef("--budget: %q is not a number of configs (25), a share of the space (10%%), a time (10s) or all", word)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, usagef("--budget: the list is empty; the value all means that every config is measured")
	}
	return out, nil
}
