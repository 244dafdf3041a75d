package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/epbench/epbench/tune/ep"
)

var terms = []struct{ word, meaning string }{
	{"dispatch", "sends each token to the ranks that hold its experts"},
	{"combine", "brings the experts' outputs back, and adds them up with their weights"},
	{"pair", "dispatch and combine together, tuned together"},
	{"layer", "dispatch, the experts' two matrix products with SwiGLU between them, and combine, measured as one call"},
	{"activation", "SwiGLU between the two matrix products of the experts, on the rows that dispatch brought; ranks do not communicate during it"},
	{"rank", "one GPU's share of the experts and tokens"},
	{"token count", "tokens of the fullest rank in one call; --tokens"},
	{"dtype", "the data type in which tokens are sent: bf16, fp8, mxfp4, nvfp4; --dtype"},
	{"layout", "how received rows lie in memory: expert, masked, rank; --layout"},
	{"slot", "memory of one call in flight"},
	{"routing", "which experts each token selects, drawn or recorded; --routing"},
	{"trace", "a recorded routing. The digest of its content identifies it; its file name is only a label"},
	{"routing class", "how uneven a routing is: even, skewed, concentrated, hot-rank. The key of a table's row contains it. A row with the class \"all\" serves every class"},
	{"config", "a kernel and a value for each of its parameters. Every command takes its id (d7f2), its difference from the default (algo=dedup sms=64), its full spelling (kernel:name=value,...), or NAME#3. In the subcommands of epbench table, NAME#3 means row 3 of the table NAME. In other commands it means winner 3 of the run NAME"},
	{"candidate", "a config while a search looks at it"},
	{"finalist", "a config in the finals of a search"},
	{"default", "the config that a caller without a table launches; the constants of Modular's engine MAX give its values"},
	{"precision", "full: the error against the float64 oracle is no larger than the default's, and the bits are the same in every run. reduced: partial sums may travel as BF16"},
	{"product", "matrix products or memory traffic that run while calls do; --beside"},
	{"beside", "while a product runs; the word has no other meaning"},
	{"cost", "the time that a call adds to the product beside it: the time of both together, minus the time of the product alone"},
	{"objective", "which time a search minimizes: alone (the time of a call by itself) or beside (its cost); --objective"},
	{"split phases", "a call in two kernels, one that sends and one that receives; between them it holds no SMs"},
	{"sample", "one collective round of one config: the slowest rank's time"},
	{"session", "the time in which a backend keeps a problem open. All memory keeps its addresses in this time. Times of one config differ between sessions, because the addresses differ"},
	{"rehearsal", "a sweep on the CPU backend: it shows how epbench works and says nothing about GPUs"},
	{"gain", "the time of the default divided by the time of the config, in the same rounds, with a 95 % interval [low, high]: 1.25 is a quarter more calls a second"},
	{"twin", "the default under a second label, in the A/A test"},
	{"A/A spread", "the difference between the default and its twin: smaller differences cannot be seen on this machine"},
	{"band", "the least difference that counts: the policy's band or the A/A spread, whichever is larger"},
	{"verdict", "faster, same, slower or undecided. Faster: the gain is beyond the band and its interval excludes 1. Same: the whole interval lies inside the band. Undecided: none of these, or the A/A spread exceeds the policy's band (noisy)"},
	{"decision", "the only record of the winner of a search: config, default, gain, band, verdict, rounds"},
	{"status", "how a candidate's measurement ended: ok, illegal, compile, launch, mismatch, hang, crash, unstable"},
	{"search", "the work on one problem, token count and routing; a sweep has many"},
	{"whole", "of a space: every legal config was measured"},
	{"surrogate", "the Gaussian process that predicts times of configs not yet measured"},
	{"recording", "one search with every round of every config in a small file, for epbench replay"},
	{"start", "a config that a search always measures: named by the kernel or the space file, chosen by a formula or another search, or taken from the table in use"},
	{"regret", "what a config loses to the best one under a routing, in per cent"},
	{"wire limit", "the time that the busiest rank's bytes take at the link's speed; no kernel is faster"},
	{"memory limit", "the time that the bytes of an activation take at the memory's nominal speed; only what stays in a cache is faster"},
	{"predicted", "computed by a model of links and recorded kernels, not measured. Every such figure says so, and no table takes one"},
	{"row", "one line of a table: key, token interval, config, evidence"},
	{"evidence", "why a row has its config: samples, gain, candidates tried and legal, dates, machine"},
	{"fallback", "the answer of a look-up without an exact row: a row that differs only in fields that the table lists as fallback fields. If there is no such row, the default answers. Each answer gives its reason"},
	{"revision", "a number that a kernel declares for the meaning of its parameters; it changes only when a meaning does"},
	{"pack", "a table's rows with their compiled kernels in one file, for epcomm"},
	{"peer", "another library that moves the same tokens"},
}

func newTerms() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "terms [WORD]",
		Short: "Explain the words that epbench uses",
		Long:  "The words of commands, files and documents, each with its one meaning.\n\n" + termList(""),
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			word := strings.Join(args, " ")
			list := termList(word)
			if list == "" {
				return usagef("no word of epbench contains %.60q%s", word, ep.DidYouMean(word, termWords(), ""))
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), list)
			return err
		},
	}
	cmd.SetHelpTemplate("{{.Long}}\n")
	return cmd
}

func termList(part string) string {
	var out strings.Builder
	for _, t := range terms {
		if !strings.Contains(strings.ToLower(t.word), strings.ToLower(part)) {
			continue
		}
		fmt.Fprintln(&out, wrapped(fmt.Sprintf("  %-15s%s", t.word, t.meaning)))
	}
	return out.String()
}

func termWords() (out []string) {
	for _, t := range terms {
		out = append(out, t.word)
	}
	return out
}
