package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/reports"
	"github.com/epbench/epbench/tune/search"
	"github.com/epbench/epbench/tune/search/replay"
)

type claimsFlags struct {
	tables   tableFlags
	replays  int
	sessions int
	seed     uint64
}

func newReplayClaims() *cobra.Command {
	var f claimsFlags
	cmd := &cobra.Command{
		Use:   "claims",
		Short: "Count false claims of searches among identical configs",
		Long: `Search 64 configs that take the same time, with several kinds of noise that GPUs have.
Every claim of a gain is then false, and the 95 % interval of the gain should contain 1 in
95 % of the searches.`,
		Example: "  epbench replay claims --replays 2000\n  epbench replay claims --sessions 1\n  epbench replay claims --replays 200 --format csv",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags(cmd, forSearch, func(s *pflag.FlagSet) {
		s.IntVar(&f.replays, "replays", 200, "`N` number of searches under each kind of noise")
		s.IntVar(&f.sessions, "sessions", 3, "`N` number of sessions in which the winners are measured again; 1: the winners are not measured again")
		s.Uint64Var(&f.seed, "seed", 1, "`SEED` seed of the random numbers for noise and searches")
	})
	f.tables.bind(cmd)
	return cmd
}

func (f *claimsFlags) run(cmd *cobra.Command) error {
	if f.replays < 1 || f.replays > 100_000 {
		return usagef("--replays: %d is outside 1 to 100000", f.replays)
	}
	if err := checkSessions(f.sessions); err != nil {
		return err
	}
	study := replay.Study{Strategy: "race", Replays: f.replays, Sessions: f.sessions, Protocol: search.OnGPU(), Seed: f.seed}
	if f.sessions == 1 {
		study.Sessions = 0
	}
	n := reports.Numbers
	t := reports.Table{
		Name: "claims", Title: "Searches among identical configs",
		Columns: []reports.Column{reports.Words("noise"), n("searches", ""), n("sessions", ""), n("false claims", "%"), n("covered", "%"), n("noisy", "%")},
		Notes: []string{
			"false claims: share of searches that claim a gain; covered: share of 95 % intervals that contain the true gain, 1; noisy: share of searches with the verdict that the machine is too noisy",
			"the noise of a sample is 1 %; with placement, times differ between sessions and configs, because each session places memory elsewhere",
		},
	}
	for _, c := range replay.Scenarios() {
		r, err := study.Claims(cmd.Context(), c)
		if err != nil {
			return err
		}
		t.Add(reports.Str(c.Name), reports.Int(f.replays), reports.Int(f.sessions), reports.Float(100*r.FalseFaster, 2), reports.Float(100*r.Covered, 1), reports.Float(100*r.Noisy, 1))
	}
	return f.tables.print(cmd, t)
}
