package ep

import (
	"fmt"
	"strconv"
	"strings"
)

// The constants bound the fields of a Problem. MaxExperts is 2^16, because messages hold expert ids as uint16. MaxTopK
// is the number of lanes of a warp, because each lane holds one expert id of a token.
const (
	MaxRanks   = 2048
	MaxExperts = 65536
	MaxTopK    = 32
	MaxHidden  = 65536
	MaxTokens  = 1 << 20
)

// Problem describes the call that is timed.
type Problem struct {
	Op           Op    `json:"op"`
	Mode         Mode  `json:"mode"`
	Ranks        int   `json:"ranks"`         // GPUs that take part
	Nodes        int   `json:"nodes"`         // hosts, with equally many GPUs
	Hidden       int   `json:"hidden"`        // elements of one token
	Experts      int   `json:"experts"`       // routed experts of all ranks
	TopK         int   `json:"top_k"`         // distinct experts that a token selects
	Tokens       int   `json:"tokens"`        // tokens on the fullest rank
	MaxTokens    int   `json:"max_tokens"`    // tokens that one rank's buffers can hold
	Dispatch     DType `json:"dispatch"`      // dtype of a sent token
	Combine      DType `json:"combine"`       // dtype of a returned row; BF16 only
	SharedExpert bool  `json:"shared_expert"` // each token also uses a shared expert
	SkipA2A      bool  `json:"skip_a2a"`      // each rank has all tokens; dispatch sends nothing

	// Precision is the precision that the caller accepts.
	Precision Precision `json:"precision"`

	// Beside names a matrix product that runs at the same time as the calls. ParseProduct reads it.
	Beside    string    `json:"beside,omitempty"`
	Objective Objective `json:"objective,omitzero"`
	Layout    Layout    `json:"layout,omitzero"` // order of received rows

	// Intermediate is the width of an expert's hidden layer, in elements. It is set only if Op is Layer.
	Intermediate int `json:"intermediate,omitempty"`
}

// LocalExperts returns the number of experts that one rank holds.
func (p Problem) LocalExperts() int { return p.Experts / p.Ranks }

// Validate checks every field.
func (p Problem) Validate() error {
	for _, f := range []struct {
		name     string
		v        int
		min, max int
	}{
		{"ranks", p.Ranks, 1, MaxRanks},
		{"nodes", p.Nodes, 1, p.Ranks},
		{"hidden", p.Hidden, 1, MaxHidden},
		{"experts", p.Experts, 1, MaxExperts},
		{"topk", p.TopK, 1, min(MaxTopK, p.Experts)},
		{"max-tokens", p.MaxTokens, 1, MaxTokens},
		{"tokens", p.Tokens, 0, p.MaxTokens},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("%s: %d is outside %d to %d", f.name, f.v, f.min, f.max)
		}
	}
	if p.Experts%p.Ranks != 0 {
		return fmt.Errorf("experts: %d is not a multiple of %d ranks; ranks can be %s",
			p.Experts, p.Ranks, divisors(p.Experts))
	}
	if p.Ranks%p.Nodes != 0 {
		return fmt.Errorf("nodes: %d ranks do not divide by %d nodes", p.Ranks, p.Nodes)
	}
	return p.validateNames()
}

func (p Problem) validateNames() error {
	if _, err := ParseOp(string(p.Op)); err != nil {
		return err
	}
	if _, err := ParseMode(string(p.Mode)); err != nil {
		return err
	}
	if _, err := ParseDType(string(p.Dispatch)); err != nil {
		return err
	}
	if p.Combine != BF16 {
		return fmt.Errorf("combine: %q, but combine sends bf16 only", p.Combine)
	}
	if p.Precision != Full && p.Precision != Reduced {
		return fmt.Errorf("precision: %d is neither ep.Full nor ep.Reduced", int(p.Precision))
	}
	if err := p.validateBeside(); err != nil {
		return err
	}
	if err := p.validateLayout(); err != nil {
		return err
	}
	if err := p.validateLayer(); err != nil {
		return err
	}
	return p.Dispatch.checkHidden(p.Hidden)
}

func (p Problem) validateLayout() error {
	if _, err := ParseLayout(p.Layout.String()); err != nil {
		return err
	}
	if p.Op == Activation && p.Layout != LayoutExpert {
		return fmt.Errorf("layout: op activation does not support %s; use layout expert", p.Layout)
	}
	if p.Layout.Kind() == "expert" {
		return nil
	}
	for _, f := range []struct {
		field string
		bad   bool
	}{
		{"shared-expert", p.SharedExpert}, {"skip-a2a", p.SkipA2A},
		{"dtype: " + string(p.Dispatch), p.Dispatch != BF16 && p.Dispatch != FP8},
	} {
		if f.bad {
			return fmt.Errorf("%s: layout %s does not support it; use layout expert", f.field, p.Layout)
		}
	}
	return nil
}

func (p Problem) validateLayer() error {
	if p.Op != Layer {
		if p.Intermediate != 0 {
			return fmt.Errorf("intermediate: %d; only op layer has it", p.Intermediate)
		}
		return nil
	}
	if p.Intermediate < 1 || p.Intermediate > MaxHidden {
		return fmt.Errorf("intermediate: %d is outside 1 to %d", p.Intermediate, MaxHidden)
	}
	if p.Intermediate%8 != 0 {
		return fmt.Errorf("intermediate: %d is not a multiple of 8 elements (16 bytes of bf16)", p.Intermediate)
	}
	if p.Layout != LayoutExpert {
		return fmt.Errorf("layout: op layer returns no received rows, so it has no layout; leave the field out")
	}
	if p.SharedExpert || p.SkipA2A {
		return fmt.Errorf("shared-expert, skip-a2a: op layer does not support them")
	}
	return nil
}

func (f DType) checkHidden(hidden int) error {
	group := map[DType]int{BF16: 8, FP8: 128, MXFP4: 32, NVFP4: 16}[f]
	if hidden%group == 0 {
		return nil
	}
	other := ""
	if f != BF16 && BF16.checkHidden(hidden) == nil {
		other = " or use bf16"
	}
	return fmt.Errorf("hidden: %d is not a multiple of %d, which %s needs; pad it to %d%s",
		hidden, group, f, (hidden+group-1)/group*group, other)
}

func divisors(n int) string {
	var out []string
	for d := 1; d <= min(n, 64); d++ {
		if n%d == 0 {
			out = append(out, fmt.Sprint(d))
		}
	}
	return strings.Join(out, ", ")
}

// Key spells the problem as one line.
func (p Problem) Key() string {
	key := fmt.Sprintf("op=%s mode=%s ranks=%d nodes=%d hidden=%d experts=%d topk=%d tokens=%d max=%d dispatch=%s combine=%s shared=%d skip=%d",
		p.Op, p.Mode, p.Ranks, p.Nodes, p.Hidden, p.Experts, p.TopK, p.Tokens, p.MaxTokens,
		p.Dispatch, p.Combine, bit(p.SharedExpert), bit(p.SkipA2A))
	if p.Precision != Full {
		key += " precision=" + p.Precision.String()
	}
	if p.Beside != "" {
		key += " beside=" + p.Beside + " objective=" + p.Objective.String()
	}
	if p.Layout != LayoutExpert {
		key += " layout=" + p.Layout.String()
	}
	if p.Op == Layer {
		key += fmt.Sprintf(" intermediate=%d", p.Intermediate)
	}
	return key
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Tokens spells a token count: "1 token", "2 tokens".
func Tokens(n int) string { return Count(n, "token") }

// Count spells a number of things, such as "2 tokens".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
