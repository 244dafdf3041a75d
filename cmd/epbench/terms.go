package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// terms are the words that commands, files and documents use, each with one
// meaning.
var terms = []struct{ word, meaning string }{
	{"dispatch", "sending each token to the ranks that hold its experts"},
	{"combine", "bringing the experts' outputs back, weighted and summed"},
	{"pair", "one dispatch and one combine, tuned and timed together"},
	{"rank", "one GPU with its share of the experts and tokens"},
	{"token count", "tokens of the fullest rank in one call; --tokens"},
	{"dtype", "what a dispatched token travels as: bf16, fp8, mxfp4, nvfp4; --dtype"},
	{"layout", "how received rows lie in memory"},
	{"routing", "which experts each token selects, drawn or recorded; --routing"},
	{"routing class", "how uneven a routing is: even, skewed, concentrated, hot-rank. Tables are keyed by it; class all is the row that serves every routing"},
	{"config", "a kernel and a value for each of its parameters. It is spelled in full (kernel:name=value,...), by what differs from the default (algo=dedup sms=64), or by its id (d7f2); every command takes all three, and NAME#3 for row 3: of a table under epbench table, elsewhere of the winners of a run"},
	{"default", "the config that MAX's constants give: what a caller without a table launches"},
	{"precision", "full: an error against the float64 oracle no larger than the default's, the same bits in every run. reduced: partial sums may travel as BF16"},
	{"product", "matrix products or memory traffic that run while calls do; --beside"},
	{"cost", "what a call costs the product beside it: the time of both together, less the product's alone"},
	{"objective", "which time a search makes small: alone, that of a call by itself, or beside, its cost; --objective"},
	{"split phases", "a call in two kernels, one that sends and one that receives; in between it holds no SMs"},
	{"sample", "one collective round of one config: the time of the slowest rank"},
	{"gain", "the default's time over the config's, in the same rounds: 1.25 is a quarter more calls a second. It comes with a 95 % interval, low and high"},
	{"A/A spread", "by how much the default differs from itself: what this machine cannot tell apart"},
	{"band", "the least difference that counts: the policy's band or the A/A spread, whichever is larger"},
	{"verdict", "faster, same, slower or undecided. Faster: the gain is beyond the band and its interval excludes 1. Undecided: the interval is neither clear of the band nor inside it, or the A/A spread exceeds the band (noisy)"},
	{"decision", "the record of what won: config, default, gain, band, verdict, rounds"},
	{"status", "how the measurement of a config ended: ok, illegal, compile, launch, mismatch, hang, crash, unstable"},
	{"search", "the work on one problem, token count and routing; a sweep is many"},
	{"whole", "of a space: every legal config was measured, not searched for"},
	{"recording", "one search with every round of every config in a small file, for epbench replay"},
	{"start", "a config that a search measures in any case: what a kernel names, another search chose, or a table holds"},
	{"regret", "what a config loses to the best one under a routing, in per cent"},
	{"memory limit", "the time that the bytes of an activation take to and from memory, at its nominal speed: only what stays in a cache is faster"},
	{"activation", "SwiGLU between the experts' two products, on the rows that dispatch brought; ranks do not communicate in it"},
	{"wire limit", "the time that the busiest rank's bytes take at the link's speed: nothing is faster"},
	{"predicted", "from a model of links and recorded kernels, not measured: every such figure says so, and no table takes one"},
	{"row", "one line of a table: key, token counts, config, evidence"},
	{"evidence", "why a row says so: samples, gain, configs tried, dates, machine"},
	{"fallback", "how a look-up is answered where no row matches exactly: by a row that differs in fields which the table allows, else by the default"},
	{"pack", "a table's rows with their compiled kernels in one file, for epcomm"},
	{"peer", "another library that moves the same tokens"},
}

func newTerms() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "terms",
		Short: "The words, each with its one meaning",
		Long:  "The words that commands, files and documents use, each with one meaning.\n\n" + termList(),
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), termList())
			return err
		},
	}
	cmd.SetHelpTemplate("{{.Long}}\n")
	return cmd
}

func termList() string {
	var out strings.Builder
	for _, t := range terms {
		fmt.Fprintln(&out, wrapped(fmt.Sprintf("  %-15s%s", t.word, t.meaning)))
	}
	return out.String()
}
