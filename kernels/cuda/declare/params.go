package declare

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// speedParam declares a parameter that changes only the time of a call. `sweep` lists the values that a sweep tries.
func speedParam(b kernels.Binding, name, doc, unit string, def ep.Value, sweep ...ep.Value) kernels.Param {
	return kernels.Param{Name: name, Doc: doc, Unit: unit, Values: sweep, Default: def, Binding: b, Class: kernels.Speed}
}

// wordParam declares a compile-time parameter whose values are words. The first word is the default.
func wordParam(name, doc string, words ...ep.Value) kernels.Param {
	return speedParam(kernels.Compile, name, doc, "", words[0], words...)
}

// design marks a parameter whose values select different algorithms. A search treats such values like different
// kernels.
func design(q kernels.Param) kernels.Param {
	q.Design = true
	return q
}

// added marks a parameter that earlier builds did not have. Their kernels did what the default value does now.
func added(q kernels.Param) kernels.Param {
	q.Before = q.Default
	return q
}

func rounding(q kernels.Param) kernels.Param {
	q.Class = kernels.Precision
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

// algoParam declares the parameter algo of a combine, whose value dedup rounds partial sums to BF16.
func algoParam(doc string) kernels.Param { return rounding(wordParam("algo", doc, "direct", "dedup")) }

// modeParam declares the parameter mode. With mode=split a call is two launches, and occupies no SM between them.
func modeParam(b kernels.Binding) kernels.Param {
	return speedParam(b, kernels.ModeParam, "fused: one kernel sends and receives; split: one kernel sends and another receives", "", kernels.ModeFused, kernels.ModeFused, kernels.ModeSplit)
}

// splitParams declares mode, and the number of blocks of the second launch, which gains more from SMs than the first.
func splitParams() []kernels.Param {
	recv := speedParam(kernels.Launch, "recv_sms", "blocks of the receiving kernel with mode=split; 0 with mode=fused", "SMs", "0", "0", "32", "64", "132")
	recv.Cost = kernels.SMCost
	return []kernels.Param{added(modeParam(kernels.Compile)), added(recv)}
}

// inputParam declares the dtype of the caller's tokens. Times of its two values are not compared, because only bf16
// includes the cast.
func inputParam() kernels.Param {
	q := added(wordParam("input", "dtype of the caller's tokens: bf16, which the kernel casts, or fp8 with float scales [tokens, hidden/128], which the caller cast", "bf16", "fp8"))
	q.Class, q.Outside = kernels.Hook, map[ep.Value]string{"fp8": "cast"}
	return q
}

func waitParam(does string, sweep ...ep.Value) kernels.Param {
	return speedParam(kernels.Launch, "wait_sms", "how many of the blocks (sms) send nothing: each of them "+does+". 0: every block first sends, and then does that too",
		"SMs", sweep[0], sweep...)
}

func unitParam(of string) kernels.Param {
	return speedParam(kernels.Compile, "unit", of+" bytes that a warp moves at a time", "bytes", "512", "512", "1024", "2048")
}

func pieceParam(name, doc string) kernels.Param {
	return speedParam(kernels.Compile, name, doc, "bytes", "512", "512", "1024")
}

func inFlightParam(def ep.Value) kernels.Param {
	return speedParam(kernels.Compile, "in_flight", "16-byte loads that a lane has outstanding", "", def, "2", "4", "8")
}

func rotateParam(def ep.Value) kernels.Param {
	return speedParam(kernels.Launch, "rotate", "1: each rank serves itself first, then the next; 0: all serve rank 0 first", "", def, "0", "1")
}

var (
	countParam = design(added(wordParam("count", "which rank counts the rows of each expert. sender: it counts them before it sends them; receiver: each of its blocks counts the ids that arrive", "sender", "receiver")))

	ownParam = design(added(wordParam("own", "how a rank adds the rows of its own tokens. slot: it writes them to a slot, like rows from other ranks; registers: it sums them in registers, and sends one sum for each token of another rank, in f32 with algo=direct", "slot", "registers")))

	ownReceivers = added(speedParam(kernels.Launch, "receivers", "warps of each block that never send, so that sums are finished while other rows are sent", "warps", "0", "0", "4", "8", "12"))

	fastAlgoParam = algoParam("direct: every row travels and the sum is in top-k order; dedup: one BF16 partial sum a rank")

	tileParam     = speedParam(kernels.Launch, "tile_tokens", "received tokens that a block claims at a time", "tokens", "128", "16", "32", "128")
	waitersParam  = speedParam(kernels.Launch, "wait_sms", "blocks that wait for all senders; the others sum", "SMs", "1", "1", "2")
	sumChunkParam = speedParam(kernels.Launch, "chunk_bytes", "bytes of a row that one warp sums at a time", "bytes", "512", "512", "1024", "2048")
)

func isDedup(c ep.Config) bool { return c.Str("algo") == "dedup" }

func ownRegisters(c ep.Config) bool { return c.Str("own") == "registers" }

func countsReceiver(c ep.Config) bool { return c.Str("count") == "receiver" }

// TakesCast reports whether a dispatch takes tokens that its caller has converted to FP8.
func TakesCast(dispatch ep.Config) bool { return dispatch.Str("input") == "fp8" }

// MayTakeCast reports whether a dispatch kernel has configs for which TakesCast is true.
func MayTakeCast(dispatch ep.Config) bool {
	_, ok := dispatch.Values["input"]
	return ok
}

func options(of ...string) []string {
	return slices.DeleteFunc(of, func(s string) bool { return s == "" })
}

func optionIf(on bool, option string) string {
	if on {
		return option
	}
	return ""
}

func defineInt(name string, c ep.Config, param string) string { return Define(name, c.Int(param)) }

func defineThreads(c ep.Config) string { return defineInt("EP_THREADS", c, "threads") }

func defineInput(c ep.Config) string { return Define("EP_RAW", Bit(TakesCast(c))) }

func defineSplit(c ep.Config) string { return optionIf(isSplit(c), "EP_SPLIT=1") }

// defineSums returns the macro for what ranks send in a combine: single rows, sums in f32, or sums in BF16.
func defineSums(c ep.Config) string {
	if ownRegisters(c) {
		return Define("EP_PARTIAL", Bit(isDedup(c)))
	}
	return Define("EP_DIRECT", Bit(!isDedup(c)))
}

func number(n int) ep.Value { return ep.Value(strconv.Itoa(n)) }

// with returns c with the values of a list such as "mode=split,wait_sms=5/8". The fraction means five eighths of the
// value of sms.
func with(c ep.Config, values string) ep.Config {
	c = ep.Config{Kernel: c.Kernel, Values: maps.Clone(c.Values)}
	if c.Values == nil {
		c.Values = map[string]ep.Value{}
	}
	for v := range strings.SplitSeq(values, ",") {
		name, value, _ := strings.Cut(v, "=")
		if part, of, ok := strings.Cut(value, "/"); ok {
			n, _ := ep.Value(part).Int()
			d, _ := ep.Value(of).Int()
			value = strconv.Itoa(c.Int("sms") * n / d)
		}
		c.Values[name] = ep.Value(value)
	}
	return c
}

func variants(c ep.Config, lists ...string) (out []ep.Config) {
	for _, values := range lists {
		out = append(out, with(c, values))
	}
	return out
}

// plain returns the config of default values, but with all SMs that a rank may use.
func (f Declaration) plain(m ep.Machine, p ep.Problem) ep.Config {
	f.Kernel.Default = nil
	return f.Kernel.DefaultConfig(m, p).With("sms", number(fastSMs(m, p)))
}

// split returns c with mode=split and as many blocks in each launch. `needs` lists further values, as for with.
func split(c ep.Config, needs string) ep.Config {
	return with(c, "mode=split,"+needs).With("recv_sms", c.Values["sms"])
}

func splitOf(dflt func(ep.Machine, ep.Problem) ep.Config, needs string) func(ep.Machine, ep.Problem) ep.Config {
	return func(m ep.Machine, p ep.Problem) ep.Config { return split(dflt(m, p), needs) }
}

// formerly describes kernels of earlier builds that are now configs of one kernel. The arguments alternate: the
// earlier name, then the values that make today's kernel do the same.
func formerly(namesAndValues ...string) map[string]kernels.Former {
	out := map[string]kernels.Former{}
	for i := 0; i < len(namesAndValues); i += 2 {
		out[namesAndValues[i]] = kernels.Former{Revision: 1, Values: with(ep.Config{}, namesAndValues[i+1]).Values}
	}
	return out
}

// formerlyPartial adds a renamed parameter to kernels in `all`: partial=f32 is now algo=direct, and partial=bf16 is
// now algo=dedup.
func formerlyPartial(all map[string]kernels.Former) map[string]kernels.Former {
	for name, f := range all {
		if _, ok := f.Values["own"]; ok {
			f.Params = map[string]kernels.Respelled{"partial": {Name: "algo", Values: map[ep.Value]ep.Value{"f32": "direct", "bf16": "dedup"}}}
			all[name] = f
		}
	}
	return all
}
