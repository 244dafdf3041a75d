package declare

import (
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels"
	"github.com/epbench/epbench/tune/ep"
)

// allParams declares every parameter of a kernel. A name such as unit/row declares the parameter unit of some kernels.
// The values that a sweep tries follow the doc, unless a kernel lists other values. A star marks the default.
var allParams = map[string]kernels.Param{
	"sms":      costing(kernels.SMCost, launch("SMs", "number of blocks, each on an SM of its own")),
	"threads":  costing(kernels.ThreadCost, compile("threads", "threads of each block")),
	"recv_sms": added(costing(kernels.SMCost, launch("SMs", "blocks of the receiving kernel with mode=split; 0 with mode=fused", "*0", "32", "64", "132"))),
	"pdl":      launch("", "1: the kernel may start while the last blocks of the kernel before it still run (programmatic dependent launch)"),

	// With mode=split a call occupies no SM between its two launches.
	"mode":        added(compile("", modeDoc, "*fused", "split")),
	"mode/counts": launch("", modeDoc, "*fused", "split"),

	// Only the caller sets these parameters.
	"input": added(kernels.Param{Doc: "dtype of the caller's tokens: bf16, which the kernel casts, or fp8 with float scales [tokens, hidden/128], which the caller cast",
		Values: values("*bf16", "fp8"), Binding: kernels.Compile, Class: kernels.Hook, Outside: map[ep.Value]string{"fp8": "cast"}}),
	"epilogue": {Doc: "operation on each finished value: none, scale or bias", Values: values("*none", "scale", "bias"), Binding: kernels.Compile, Class: kernels.Hook},

	// Which messages are sent, and who counts them.
	"algo/dispatch": compile("", "direct: a token is sent once to each of its experts; dedup: a token is sent once to each distinct rank, and the receiver copies it to each expert", "*direct", "dedup"),
	"algo/combine":  rounding(compile("", "direct: every row is sent; dedup: each rank sends one BF16 partial sum for each token, which needs a dispatch with algo=dedup", "*direct", "dedup")),
	"algo/sum":      rounding(compile("", "direct: every row is sent, and rows are added in top-k order; dedup: each rank sends one BF16 partial sum for each token", "*direct", "dedup")),
	"algo/final":    design(compile("", "dedup: one message for each distinct rank of a token; direct: one message for each expert; home: as dedup, but rows on the sender's own rank are stored by the sender", "*dedup", "direct", "home")),
	"count":         design(added(compile("", "which rank counts the rows of each expert. sender: it counts them before it sends them; receiver: each of its blocks counts the ids that arrive", "*sender", "receiver"))),
	"own":           design(added(compile("", ownDoc, "*slot", "registers"))),
	"own/team":      design(added(compile("", ownDoc+"; team: as registers with algo=dedup, but some warps of a block only load rows to shared memory, and others only add them", "*slot", "registers", "team"))),
	"after":         design(added(compile("", "which dispatch the combine follows: dispatch_ll (ll) or dispatch_final (final, slots then take twice the memory)", "*ll", "final"))),
	"rows/place":    design(added(compile("", "where senders store elements. slot: in a slot, from which the receiver copies them; home: in the output of the receiver; staged: as slot, but rows for the own rank go to its output, and some warps of each block only receive", "*slot", "home", "staged"))),
	"scales":        compile("", "when FP8 scales are written to the output. row: with their row; tile: for 32 rows together, after these rows have arrived", "*row", "tile"),
	"rotate":        launch("", "1: each rank serves itself first, then the next rank; 0: all ranks serve rank 0 first"),

	// Between hosts.
	"arrival/message": design(added(compile("", "count: receivers wait until all messages are counted; data, for small batches: receivers poll each message, or the flag that another host puts after it", "*count", "data"))),
	"arrival/row":     design(added(compile("", "count: receivers wait until all rows are counted; data, for small batches: receivers poll each row, or the flag that another host puts after it", "*count", "data"))),
	"route/message":   compile("", "direct: a token is sent once for each of its experts (with arrival=data once for each rank); rail: a token is sent once to each host, and the rank there that has the sender's local index forwards it", "*direct", "rail"),
	"route/row":       compile("", "direct: every row goes to the rank of its token; rail: each host sends one sum for each token", "*direct", "rail"),
	"partial":         rounding(compile("", "dtype in which a host sends its sum of a token's rows with route=rail: f32 or bf16", "*f32", "bf16")),
	"relay_warps":     compile("", "warps of a block that forward messages with route=rail", "1", "*4", "16"),
	"relay_chunk":     compile("tokens", "messages that a warp forwards one after another", "*1", "4"),

	// Roles of blocks and warps.
	"wait_sms/place":    launch("SMs", waiting("copies what arrived to its rows")),
	"wait_sms/complete": launch("SMs", waiting("completes what arrived: copies rows to further experts, places scales")),
	"wait_sms/add":      launch("SMs", waiting("adds what arrived")),
	"wait_sms/sum":      launch("SMs", waiting("sums what arrived")),
	"wait_sms/counts":   launch("SMs", "blocks that wait for all senders; the others sum", "*1", "2"),
	"count_sms":         launch("SMs", "blocks that count tokens and signal; the others send", "2", "*8", "16"),
	"count_sms/hosts":   launch("SMs", "blocks that count tokens and announce; the others send", "*2", "8"),
	"receivers":         launch("warps", "warps of each block that never send, so that early tokens are copied while later tokens are sent", "0", "*8"),
	"receivers/sum":     added(launch("warps", "warps of each block that never send, so that sums are finished while other rows are sent", "*0", "4", "8", "12")),
	"team": added(compile("warps", "with algo=home, number of warps that send a token together, so that the tokens of a block arrive one after the other; 1: each warp sends tokens of its own",
		"*1", "4", "8")),
	"pause": launch("ns", "pause between two polls of a warp that never sends", "*0", "250"),
	"early": compile("", "1: a receiving warp polls its first data before it knows the rows to which they go", "*0", "1"),

	// How much is moved at a time.
	"copy":                compile("", "how senders move data: vector (16 bytes a lane) or bulk (asynchronous copies through shared memory)", "*vector", "bulk"),
	"in_flight":           compile("", "16-byte loads that a lane has outstanding"),
	"in_flight/ring":      compile("", "number of 16-byte loads into shared memory that a sending lane has outstanding; 0: loads go into registers, 2 to 4 at a time", "*0", "4", "8", "12"),
	"in_flight/silu":      compile("pieces", "pieces of 256 columns whose loads are on their way while a warp computes another piece", "*1", "2", "4"),
	"tile_tokens":         launch("tokens", "received tokens that a block claims at a time", "16", "32", "*128"),
	"rows":                compile("tokens", "rows that a block sends at a time", "*1", "2", "4"),
	"chunk_bytes/message": launch("bytes", "number of bytes of a message that one warp sends; 0: the whole message", "*0", "1024", "4096"),
	"chunk_bytes/hosts":   launch("bytes", "number of bytes of a message that one warp puts; 0: the whole message", "*0", "1024", "4096"),
	"chunk_bytes/sum":     launch("bytes", "bytes of a row that one warp sums at a time", "*512", "1024", "2048"),
	"unit/message":        compile("bytes", "message bytes that a warp moves at a time", "*512", "1024", "2048"),
	"unit/row":            compile("bytes", "row bytes that a warp moves at a time", "*512", "1024", "2048"),
	"send":                compile("bytes", sendDoc, "*512", "1024"),
	"send/receiver":       added(compile("bytes", sendDoc+" with count=receiver", "*512", "1024")),
	"part":                compile("bytes", partDoc, "*512", "1024"),
	"part/receiver":       added(compile("bytes", partDoc+" with count=receiver", "*512", "1024")),
	"part/hosts":          added(compile("bytes", "with arrival=data, message bytes that a receiving or forwarding warp waits for and copies at a time", "*512", "1024")),
}

const (
	ownDoc  = "what a rank does with the rows of its experts. slot: rows of its own tokens go to a slot, like the rows that arrive; registers: it sums the rows of each token in registers, and sends other ranks the sums of their tokens, in f32 with algo=direct, in bf16 with algo=dedup"
	modeDoc = "fused: one kernel sends and receives; split: one kernel sends and another receives"
	sendDoc = "message bytes that a sending warp converts and stores at a time"
	partDoc = "message bytes that a receiving warp waits for and copies at a time"
)

// waiting returns the doc of the parameter wait_sms, for kernels in which 0 is legal.
func waiting(does string) string {
	return "how many of the blocks (sms) send nothing: each of them " + does + ". 0: every block first sends, and then does that too"
}

// launch declares a parameter of a launch that changes only the time of a call.
func launch(unit, doc string, sweep ...string) kernels.Param {
	return kernels.Param{Doc: doc, Unit: unit, Values: values(sweep...), Binding: kernels.Launch, Class: kernels.Speed}
}

// compile declares a parameter of the compilation that changes only the time of a call.
func compile(unit, doc string, sweep ...string) kernels.Param {
	return kernels.Param{Doc: doc, Unit: unit, Values: values(sweep...), Binding: kernels.Compile, Class: kernels.Speed}
}

// design marks a parameter whose values select different algorithms. A search treats such values like different
// kernels.
func design(q kernels.Param) kernels.Param {
	q.Design = true
	return q
}

// added marks a parameter that earlier builds did not have. Their kernels did what the default value does now.
func added(q kernels.Param) kernels.Param {
	_, q.Before = swept(q.Values)
	return q
}

// rounding marks a parameter whose values round differently.
func rounding(q kernels.Param) kernels.Param {
	q.Class = kernels.Precision
	return q
}

func costing(of kernels.Cost, q kernels.Param) kernels.Param {
	q.Cost = of
	return q
}

func values(of ...string) (out []ep.Value) {
	for _, s := range of {
		out = append(out, ep.Value(s))
	}
	return out
}

// swept removes the star from the marked values. It also returns the value that had the star.
func swept(marked []ep.Value) (plain []ep.Value, dflt ep.Value) {
	for _, v := range marked {
		word, star := strings.CutPrefix(string(v), "*")
		if star {
			dflt = ep.Value(word)
		}
		plain = append(plain, ep.Value(word))
	}
	return plain, dflt
}

// params returns parameters of a kernel. Each text begins with a name in allParams. If a sweep tries other values for
// this kernel, they follow the name: "sms 16 32 *64".
func params(texts ...string) []kernels.Param {
	out := make([]kernels.Param, len(texts))
	for i, text := range texts {
		f := strings.Fields(text)
		q, ok := allParams[f[0]]
		if !ok {
			panic("declare: no parameter is called " + f[0])
		}
		q.Name, _, _ = strings.Cut(f[0], "/")
		if len(f) > 1 {
			q.Values = values(f[1:]...)
		}
		q.Values, q.Default = swept(q.Values)
		out[i] = q
	}
	return out
}

// TakesCast reports whether a dispatch takes tokens that its caller has converted to FP8.
func TakesCast(dispatch ep.Config) bool { return holds(dispatch, "input=fp8") }

// MayTakeCast reports whether a dispatch kernel has configs for which TakesCast is true.
func MayTakeCast(dispatch ep.Config) bool {
	_, ok := dispatch.Values["input"]
	return ok
}

// formerly describes kernels of earlier builds that are now configs of one kernel. The arguments alternate: the
// earlier name, then the values that make today's kernel do the same. A kernel whose values set `own` had the parameter
// `partial` in place of `algo`.
func formerly(namesAndValues ...string) map[string]kernels.Former {
	out := map[string]kernels.Former{}
	for pair := range slices.Chunk(namesAndValues, 2) {
		f := kernels.Former{Revision: 1, Values: with(ep.Config{}, pair[1]).Values}
		if _, ok := f.Values["own"]; ok {
			f.Params = map[string]kernels.Respelled{"partial": {Name: "algo", Values: map[ep.Value]ep.Value{"f32": "direct", "bf16": "dedup"}}}
		}
		out[pair[0]] = f
	}
	return out
}

// sumMacros lists the macros that say what a rank sends in a combine. With own=registers it sends sums: in BF16 if
// algo=dedup, otherwise in f32. With own=slot it sends single rows if algo=direct, otherwise sums in BF16.
const sumMacros = "own=registers?EP_PARTIAL=algo=dedup !own=registers?EP_DIRECT=algo=direct"
