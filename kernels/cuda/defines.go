package cuda

import (
	"fmt"
	"slices"

	"github.com/epbench/epbench/tune/ep"
)

// problemDefines are the -D options that every variant gets: what the
// compiler should know of the problem. Token counts and MaxTokens stay
// run-time values, so that one binary serves a whole sweep of tokens.
//
//	EP_HIDDEN         elements of a token
//	EP_TOPK           experts of a token
//	EP_EXPERTS        routed experts over all ranks
//	EP_RANKS          ranks
//	EP_LOCAL_EXPERTS  experts of one rank
//	EP_DTYPE         EP_BF16, EP_FP8, EP_MXFP4 or EP_NVFP4
//	EP_SHARED         1 when a shared expert is fused
//	EP_SKIP_A2A       1 when tokens are replicated and nothing is sent
func problemDefines(p ep.Problem) []string {
	return []string{
		define("EP_HIDDEN", p.Hidden),
		define("EP_TOPK", p.TopK),
		define("EP_EXPERTS", p.Experts),
		define("EP_RANKS", p.Ranks),
		define("EP_LOCAL_EXPERTS", p.LocalExperts()),
		define("EP_DTYPE", slices.Index(ep.DTypes(), p.Dispatch)),
		define("EP_SHARED", bit(p.SharedExpert)),
		define("EP_SKIP_A2A", bit(p.SkipA2A)),
	}
}

// define spells one option for problemDefines and family.defines.
func define(name string, value int) string { return fmt.Sprintf("%s=%d", name, value) }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The values of EP_EPILOGUE, by the word a config's "epilogue" parameter
// holds. A combine family that offers the hook declares that parameter with
// these words and passes define("EP_EPILOGUE", epilogues[word]); the session
// supplies bias and scale, and verifies accordingly.
var epilogues = map[string]int{"": 0, "none": 0, "scale": 1, "bias": 2}
