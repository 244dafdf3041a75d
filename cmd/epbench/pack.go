package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/kernels/cuda/pack"
	"github.com/epbench/epbench/kernels/cuda/sources"
	"github.com/epbench/epbench/tune/ep"
	"github.com/epbench/epbench/tune/table"
)

const (
	compilerName = "epbench-compile"
	compilerEnv  = "EPBENCH_COMPILE"
)

type packFlags struct {
	sourceFlags
	problem       problemFlags
	precision     string
	objective     string
	raw           bool
	survivors     bool
	maxSMs        int
	certified     bool
	otherMachines bool
	machineFile   string
	out           string
	fit           string
	tables        tableFlags
}

func newPack() *cobra.Command {
	var f packFlags
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Make one file of tuned rows and their compiled kernels, for epcomm",
		Long: `Look up the rows for one problem shape and rank count, compile their kernels for the
table's GPU, and write one file that epcomm runs in production. pack needs libnvrtc (make
cuda-deps, or a CUDA toolkit) but no GPU. For token counts without a row, the pack has
the default config, and epbench pack show says so. With --nodes the kernels cross hosts:
pack links them to NVSHMEM's device library (make cuda-deps NVSHMEM=1), and they need
NVSHMEM's host library of the same version.`,
		Example: "  epbench pack --model glm-5 --ranks 2 --max-tokens 4096 -o glm.pack\n" +
			"  epbench pack --model glm-5 --ranks 2 --fit 12GiB\n" +
			"  epbench pack show demo.pack",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return needSubcommand(cmd, args)
			}
			if f.fit != "" {
				return f.runFit(cmd)
			}
			return f.run(cmd)
		},
	}
	f.sourceFlags.bind(cmd)
	f.problem.bind(cmd, "op", "tokens", "routing", "mode", "seed")
	setUsage(cmd.Flags().Lookup("max-tokens"), "`N` largest number of tokens of a rank in one call; it determines the size of the memory")
	setUsage(cmd.Flags().Lookup("ranks"), "`N` number of ranks, one GPU each")
	flags(cmd, forTables, func(s *pflag.FlagSet) {
		s.BoolVar(&f.raw, "raw", false, "with dtype fp8: the caller passes tokens that are already cast, and float scales [tokens, hidden/128]")
		s.BoolVar(&f.survivors, "survivors", false, "calls can continue after a rank is lost; only layouts masked, rank and rank:packed on one host")
		s.StringVar(&f.objective, "objective", "alone", "`OBJECTIVE` rows to take: alone, for calls that run alone, or beside, for calls beside a matrix product")
		s.StringVar(&f.precision, "precision", "full", "`PRECISION` full or reduced; reduced also takes configs that round partial sums to bf16")
		s.IntVar(&f.maxSMs, "max-sms", 0, "`N` largest number of SMs of a call; the default config replaces a row that takes more SMs")
		s.BoolVar(&f.certified, "certified", false, "refuse rows that were measured with an earlier build of their kernels")
	})
	bindOtherMachines(cmd, &f.otherMachines)
	flags(cmd, forOutput, func(s *pflag.FlagSet) {
		s.StringVar(&f.machineFile, "machine", "", "`FILE` run.json or table.json of the machine to pack for; default: the table's machine")
		s.StringVarP(&f.out, "out", "o", "", "`FILE` file to write")
		s.StringVar(&f.fit, "fit", "", "`SIZE` print the numbers of tokens and calls in flight that fit into this much memory of a rank, for each layout; compile nothing")
	})
	f.tables.bind(cmd)
	cmd.AddCommand(newPackShow())
	return cmd
}

func (f *packFlags) run(cmd *cobra.Command) error {
	if f.out == "" {
		return usagef("-o FILE is required, for example -o model.pack")
	}
	r, err := f.request()
	if err != nil {
		return err
	}
	program, err := findProgram(compilerName, compilerEnv, "epcomm")
	if err != nil {
		return err
	}
	if err := writable("-o", f.out); err != nil {
		return err
	}
	p, err := pack.Build(r, func(arch string, units []sources.Unit) (pack.Compiled, error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "compiling %d device binaries for %s\n", len(units), arch)
		return pack.CompileWith(program, arch, units)
	})
	if err != nil {
		return err
	}
	if err := writeOut(cmd, f.out, bytes.NewReader(p.Data)); err != nil {
		return err
	}
	for _, n := range p.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	n, bytes := p.Variants()
	fmt.Fprintf(wrapping(cmd.OutOrStdout(), terminalWidth(cmd)), "%s: %d bytes, %d device binaries of %d bytes, %s of device memory a rank with one call in flight, digest %.12s\n",
		f.out, len(p.Data), n, bytes, mebibytes(p.HeapBytes(1)), p.Digest)
	if n := uncovered(p); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d answers of the pack are the default, because no row covers their token counts; see epbench pack show\n", n)
	}
	if n := uncertified(p); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d answers of the pack were measured with an earlier build or on other GPUs; --certified refuses such rows, epbench table verify certifies them\n", n)
	}
	return nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// uncovered counts the answers without a row of a table. It leaves out pack.Halves: few tables have rows for this
// purpose, because only a sweep with --beside searches split-phase kernels.
func uncovered(p *pack.Pack) (n int) {
	for _, l := range p.Lookups {
		for _, r := range l.Runs {
			if r.Uncovered && l.Purpose != pack.Halves {
				n++
			}
		}
	}
	return n
}

// uncertified counts the answers that were measured with an earlier build of their kernels or on other GPUs.
func uncertified(p *pack.Pack) (n int) {
	for _, l := range p.Lookups {
		for _, r := range l.Runs {
			if !r.Uncovered && !r.Certified {
				n++
			}
		}
	}
	return n
}

func (f *packFlags) request() (r pack.Request, err error) {
	if f.problem.ranks < 1 || f.problem.maxTokens < 1 && f.fit == "" {
		return r, usagef("--ranks and --max-tokens are both required, for example --ranks 2 --max-tokens 4096")
	}
	if n := f.problem.nodes; n < 1 || f.problem.ranks%n != 0 {
		return r, usagef("--nodes: %d ranks cannot be spread evenly over %d nodes", f.problem.ranks, n)
	}
	p, err := f.problem.base(ep.Machine{})
	if err != nil {
		return r, badInput(err)
	}
	r.Problem = ep.Problem{
		Ranks: p.Ranks, Nodes: p.Nodes, Hidden: p.Hidden, Experts: p.Experts, TopK: p.TopK,
		MaxTokens: f.problem.maxTokens, SharedExpert: p.SharedExpert, SkipA2A: p.SkipA2A, Layout: p.Layout,
	}
	for _, word := range splitList(f.problem.dtypes) {
		d, err := ep.ParseDType(word)
		if err != nil {
			return r, usagef("--%w", err)
		}
		r.DTypes = append(r.DTypes, d)
	}
	accepted, err := ep.ParsePrecision(f.precision)
	if err != nil {
		return r, usagef("--%w", err)
	}
	if r.Problem.Objective, err = ep.ParseObjective(f.objective); err != nil {
		return r, usagef("--%w", err)
	}
	r.Raw, r.Survivors = f.raw, f.survivors
	r.Reduced, r.MaxSMs = accepted == ep.Reduced, f.maxSMs
	if r.Tables, err = f.sourceFlags.open(); err != nil {
		return r, err
	}
	if r.Machine, err = f.machine(r.Tables); err != nil {
		return r, err
	}
	if f.certified && f.otherMachines {
		return r, usagef("--certified refuses the rows that --other-machines takes; give only one of the two flags")
	}
	r.ABI, r.Certified, r.OtherMachines = declare.ABIOver(p.Nodes), f.certified, f.otherMachines
	return r, nil
}

// machine returns the machine of --machine, or of the last table with rows for the ranks and nodes.
func (f *packFlags) machine(set *table.Set) (ep.Machine, error) {
	if f.machineFile != "" {
		h, err := readHost(f.machineFile)
		return h.Machine, err
	}
	sources, backend, nodes := set.Sources(), "cuda", f.problem.nodes
	if nodes > 1 {
		backend = "cuda-hosts"
	}
	for i := len(sources) - 1; i >= 0; i-- {
		for _, row := range sources[i].Table.Rows {
			if row.Key.Ranks == f.problem.ranks && row.Key.Nodes == nodes && sources[i].Table.Header.Machine.Backend == backend {
				return sources[i].Table.Header.Machine, nil
			}
		}
	}
	if nodes > 1 {
		return ep.Machine{}, usagef("--nodes: no table has a row for %d ranks on %d nodes; sweep as in epbench docs multinode and give the run with --table, or give --machine FILE to pack defaults", f.problem.ranks, nodes)
	}
	return ep.Machine{}, usagef("--ranks: no table has a row for %d ranks on GPUs; sweep and give the run with --table, or give --machine FILE to pack defaults", f.problem.ranks)
}
