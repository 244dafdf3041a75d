package cuda

import (
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// What the ll and final kernels declare alike.

// maxFastTokens bounds max-tokens of the ll and final kernels: 20 bits of a
// header word hold a position in a segment.
const maxFastTokens = 1<<20 - 1

func values(words ...ep.Value) []ep.Value { return words }

func smsParam(sweep ...ep.Value) kernels.Param {
	return kernels.Param{Name: "sms", Doc: "blocks, one an SM", Unit: "SMs", Values: sweep, Default: sweep[len(sweep)-1],
		Binding: kernels.Launch, Class: kernels.Speed, Cost: kernels.SMCost}
}

func threadsParam(sweep ...ep.Value) kernels.Param {
	return kernels.Param{Name: "threads", Doc: "threads a block", Unit: "threads", Values: sweep, Default: sweep[len(sweep)-1],
		Binding: kernels.Compile, Class: kernels.Speed, Cost: kernels.ThreadCost}
}

func pdlParam() kernels.Param {
	return kernels.Param{Name: "pdl", Doc: "1: start while the kernel before drains (programmatic dependent launch)",
		Values: values("0", "1"), Default: "0", Binding: kernels.Launch, Class: kernels.Speed}
}

func algoParam(doc string) kernels.Param {
	return kernels.Param{Name: "algo", Doc: doc, Values: values("direct", "dedup"), Default: "direct",
		Binding: kernels.Compile, Class: kernels.Precision}
}

// checkFast refuses what neither the ll nor the final kernels can do.
func checkFast(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := checkProblem(m, p); err != nil {
		return err
	}
	switch {
	case p.Dispatch != ep.BF16 && p.Dispatch != ep.FP8:
		return fmt.Errorf("format: %s sends bf16 and fp8, not %s; use the ep kernels", c.Kernel, p.Dispatch)
	case p.SharedExpert:
		return fmt.Errorf("shared-expert: %s does not fuse it; use the ep kernels", c.Kernel)
	case p.SkipA2A:
		return fmt.Errorf("skip-a2a: %s always sends; use the ep kernels", c.Kernel)
	case p.MaxTokens > maxFastTokens:
		return fmt.Errorf("max-tokens: %d is more than %d, the positions of a header", p.MaxTokens, maxFastTokens)
	}
	if err := checkSMs(m, p, c, "sms", 1); err != nil {
		return err
	}
	return checkThreads(c, "threads", 64, 1024)
}

func checkSwitch(c ep.Config, name string) error { return checkWord(c, name, "0", "1") }

func checkWord(c ep.Config, name string, known ...string) error {
	if !slices.Contains(known, c.Str(name)) {
		return fmt.Errorf("%s: %q is not one of %s", name, c.Str(name), strings.Join(known, ", "))
	}
	return nil
}

// inOrder is what the ll and final dispatches promise: the oracle's bytes, and
// tokens ascending inside each segment, in every run.
func inOrder(ep.Problem, ep.Config) ref.Compare { return ref.Compare{Ordered: true} }

// fastSMs is all of a rank's share of its GPU.
func fastSMs(m ep.Machine, p ep.Problem) int { return max(maxBlocks(m, p), 1) }

// fastLaunch is the one launch of a call.
func fastLaunch(entry string, c ep.Config) launch {
	return launch{
		entry: entry, grid: c.Int("sms"), block: c.Int("threads"), pdl: c.Int("pdl") == 1,
		params: launchParams{sms: c.Int("sms")},
	}
}

// oneCounter is the abort word.
func oneCounter(ep.Problem) int { return 1 }
