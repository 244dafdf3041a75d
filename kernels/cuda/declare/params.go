package declare

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/kernels/ref"
	"github.com/epbench/epbench/tune/ep"
)

// speedParam declares a parameter that changes only the time of a call. `sweep` lists the values
// that a sweep tries.
func speedParam(b kernels.Binding, name, doc, unit string, def ep.Value, sweep ...ep.Value) kernels.Param {
	return kernels.Param{Name: name, Doc: doc, Unit: unit, Values: sweep, Default: def, Binding: b, Class: kernels.Speed}
}

// designParam declares a compile-bound parameter whose values are different designs. A search treats the
// values like different kernels.
func designParam(name, doc string, def ep.Value, sweep ...ep.Value) kernels.Param {
	q := speedParam(kernels.Compile, name, doc, "", def, sweep...)
	q.Design = true
	return q
}

func smsParam(sweep ...ep.Value) kernels.Param {
	q := speedParam(kernels.Launch, "sms", "number of blocks, each on an SM of its own", "SMs", sweep[len(sweep)-1], sweep...)
	q.Cost = kernels.SMCost
	return q
}

func threadsParam(sweep ...ep.Value) kernels.Param {
	q := speedParam(kernels.Compile, "threads", "threads of each block", "threads", sweep[len(sweep)-1], sweep...)
	q.Cost = kernels.ThreadCost
	return q
}

func pdlParam(def ep.Value) kernels.Param {
	return speedParam(kernels.Launch, "pdl", "1: the kernel may start while the last blocks of the kernel before it still run (programmatic dependent launch)", "", def, "0", "1")
}

// algoParam declares algo of a combine. Its class is Precision, because dedup rounds partial sums.
func algoParam(doc string) kernels.Param {
	q := speedParam(kernels.Compile, "algo", doc, "", "direct", "direct", "dedup")
	q.Class = kernels.Precision
	return q
}

// maxFastTokens is the largest max-tokens of the ll and final kernels: 20 bits of a header word
// hold a position in a segment.
const maxFastTokens = 1<<20 - 1

// checkFast refuses problems that none of the ll, final, rank and masked kernels can run.
func checkFast(m ep.Machine, p ep.Problem, c ep.Config) error {
	if err := CheckProblem(m, p); err != nil {
		return err
	}
	switch {
	case p.Dispatch != ep.BF16 && p.Dispatch != ep.FP8:
		return fmt.Errorf("dtype: %s sends bf16 and fp8, not %s; use the ep kernels", c.Kernel, p.Dispatch)
	case p.SharedExpert:
		return fmt.Errorf("shared-expert: %s does not fuse it; use the ep kernels", c.Kernel)
	case p.SkipA2A:
		return fmt.Errorf("skip-a2a: %s always sends; use the ep kernels", c.Kernel)
	case p.MaxTokens > maxFastTokens:
		return fmt.Errorf("max-tokens: %d is more than %d, the largest position that a header holds", p.MaxTokens, maxFastTokens)
	}
	return cmp.Or(checkSMs(m, p, c, 1), checkThreads(c, 64))
}

// byExpert lists the layouts whose rows are sorted by expert, one group of rows after the other.
var byExpert = []ep.Layout{ep.LayoutExpert, ep.LayoutExpert128}

// inOrder returns the comparison for a dispatch that writes the tokens of each segment in ascending
// order: its output must equal the oracle's bytes.
func inOrder(ep.Config) ref.Compare { return ref.Compare{Ordered: true} }

// preReduced returns the comparison for a combine that may sum a rank's rows before it sends them.
// The config decides whether the sums are rounded to BF16.
func preReduced(c ep.Config) ref.Compare { return ref.Compare{Partial: partialOf(c)} }

func partialOf(c ep.Config) ref.Partial {
	switch {
	case isDedup(c), c.Str("partial") == "bf16":
		return ref.BF16Partial
	case c.Str("partial") == "f32", ownRegisters(c):
		return ref.F32Partial
	}
	return ref.NoPartial
}

// JudgedElements is the largest number of output elements that one verification compares on each
// rank. If there are more, the verification compares a sample of the rows.
const JudgedElements = 16 << 20

// Judged returns how far a config's output may be from the oracle's, and the largest number of rows to
// compare. If the config has an epilogue, all rows are compared.
func (f Declaration) Judged(p ep.Problem, c ep.Config) ref.Compare {
	var out ref.Compare
	if f.compare != nil {
		out = f.compare(c)
	}
	switch c.Str("epilogue") {
	case "scale":
		out.Epilogue = &ref.Epilogue{Scale: EpilogueScale}
	case "bias":
		out.Epilogue = &ref.Epilogue{Bias: Bias(p.Hidden)}
	default:
		out.MaxRows = max(JudgedElements/p.Hidden, 1)
	}
	return out
}

// JudgedAs returns what Judged returns, for a caller that has a config but no declaration.
func JudgedAs(p ep.Problem, c ep.Config) (ref.Compare, error) {
	f, err := Find(c.Kernel)
	return f.Judged(p, c), err
}

func isDedup(c ep.Config) bool { return c.Str("algo") == "dedup" }

// fastSMs returns the number of SMs that a rank may use, at least 1.
func fastSMs(m ep.Machine, p ep.Problem) int { return max(maxBlocks(m, p), 1) }

// launchOf returns one launch of an entry, with the parameters that every kernel has.
func launchOf(entry string, c ep.Config) Launch {
	return Launch{
		Entry: entry, Grid: c.Int("sms"), Block: c.Int("threads"), PDL: c.Int("pdl") == 1,
		Params: LaunchParams{SMs: c.Int("sms")},
	}
}

// defineInt spells a numeric parameter as a compile option.
func defineInt(name string, c ep.Config, param string) string { return Define(name, c.Int(param)) }

func number(n int) ep.Value { return ep.Value(fmt.Sprint(n)) }

// checkThreads checks that threads are whole warps and at least lo.
func checkThreads(c ep.Config, lo int) error {
	return kernels.CheckMultiple(c, "threads", Warp, lo, MaxThreads, "a warp")
}

// checkSMs checks that sms, the number of blocks, is at least lo, and that so many blocks can be
// resident at once.
func checkSMs(m ep.Machine, p ep.Problem, c ep.Config, lo int) error {
	n, hi := c.Int("sms"), maxBlocks(m, p)
	if n > hi {
		return fmt.Errorf("sms: %d blocks cannot all be resident: each rank has %d SMs, with one block on each", n, hi)
	}
	if n < lo {
		return fmt.Errorf("sms: %s is below %d, the fewest blocks that the kernel's roles need", c.Values["sms"], lo)
	}
	return nil
}

// checkUnused checks parameters that have no effect under a condition. Each must have its one legal
// value, spelled name=value in `unused`. A parameter that the kernel does not have is skipped.
func checkUnused(c ep.Config, condition string, unused ...string) error {
	for _, u := range unused {
		name, want, _ := strings.Cut(u, "=")
		if v, ok := c.Values[name]; ok && string(v) != want {
			return fmt.Errorf("%s: %s, but with %s it has no effect; use %s", name, v, condition, want)
		}
	}
	return nil
}

func checkSwitch(c ep.Config, name string) error { return kernels.CheckWord(c, name, "0", "1") }

// formerly returns the former kernels that are now configs of another kernel. The arguments alternate:
// the name of a former kernel, then the parameter values of its config, spelled as in a config.
func formerly(namesAndValues ...string) map[string]kernels.Former {
	out := map[string]kernels.Former{}
	for i := 0; i < len(namesAndValues); i += 2 {
		c, err := ep.ParseConfig(namesAndValues[i] + ":" + namesAndValues[i+1])
		if err != nil {
			panic(err) // the author of the declaration sees it
		}
		out[c.Kernel] = kernels.Former{Revision: 1, Values: c.Values}
	}
	return out
}
