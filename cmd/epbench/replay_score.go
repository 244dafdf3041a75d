package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/replay"
)

type scoreFlags struct {
	tables     tableFlags
	strategies string
	replays    int
	seed       uint64
}

func newReplayScore() *cobra.Command {
	var f scoreFlags
	cmd := &cobra.Command{
		Use:   "score SPACE...",
		Short: "Score strategies over time against random search",
		Long: `Search each SPACE many times. The score compares the best time found with that of random
search, as a mean over time: 0 is as good as random search, 1 means that the best config
was found at once, and a score below 0 is worse than random search. It is the score of
autotuning_methodology. SPACE is a run, a recording, a T4 file or a cache file of Kernel
Tuner. Nearly every config of SPACE must have been measured.`,
		Example: `  epbench replay score convolution/A100_T4.json.gz --strategy all
  epbench replay score recordings/*.rounds.gz --replays 20
  epbench replay score run --strategy auto,race --format csv`,
		Args: minArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.StringVar(&f.strategies, "strategy", search.DefaultStrategy, strategyListHelp())
		s.IntVar(&f.replays, "replays", 20, "`N` number of searches of each space")
		s.Uint64Var(&f.seed, "seed", 1, "`SEED` seed of the random numbers for noise and searches")
	})
	f.tables.bind(cmd)
	return cmd
}

func (f *scoreFlags) run(cmd *cobra.Command, args []string) error {
	if f.replays < 1 || f.replays > 100_000 {
		return usagef("--replays: %d is outside 1 to 100000", f.replays)
	}
	strategies, err := parseStrategies(f.strategies)
	if err != nil {
		return err
	}
	models, protocol, err := replayModels(args, replay.NoStarts)
	if err != nil {
		return err
	}
	t := scoreTable()
	t.Notes = append(t.Notes, warningsOf(func(i int) *replay.Model { return models[i] }, len(models))...)
	for _, strategy := range strategies {
		sum := 0.0
		for _, m := range models {
			s := replay.Study{Strategy: strategy, Replays: f.replays, Protocol: protocol, Seed: f.seed}
			score, r, err := s.ScoreOf(cmd.Context(), m)
			if errors.Is(err, replay.ErrNoPace) {
				return badInput(err)
			}
			if err != nil {
				return err
			}
			sum += score
			t.Add(reports.Str(strategy), reports.Str(m.Name), reports.Int(m.Space.Len()), reports.Float(100*m.ValidShare(), 0), reports.Int(m.Baseline().Tries),
				reports.Float(r.Seconds, 0), reports.Float(r.Evaluations, 0), reports.Float(score, 3), reports.Float(100*r.Regret, 2))
		}
		t.Add(reports.Str(strategy), reports.Str("mean of all spaces"), reports.Str(""), reports.Str(""), reports.Str(""), reports.Str(""), reports.Str(""),
			reports.Float(sum/float64(len(models)), 3), reports.Str(""))
	}
	return f.tables.print(cmd, t)
}

func scoreTable() reports.Table {
	n := reports.Numbers
	return reports.Table{
		Name: "score", Title: "Score over time against random search",
		Columns: []reports.Column{reports.Words("strategy"), reports.Words("space"), n("configs", ""), n("valid", "%"), n("cutoff", ""), n("wall", "s"), n("tried", ""),
			n("score", ""), n("regret", "%")},
		Notes: []string{
			"score: the mean over all moments of (R - S) / (R - B). At a moment, R and S are the times of the fastest configs that random search and the strategy have found. B is the time of the space's fastest config. A score of 1 is best. With a score below 0, the strategy is worse than random search",
			"cutoff: number of configs with which random search has come 95 % of the way from the median time to the best time; searches end after the time that these configs take",
			"wall: modelled time of a search, including compilation; regret: by how much the true time of its winner exceeds the true time of the best config",
		},
	}
}
