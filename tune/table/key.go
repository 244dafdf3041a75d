package table

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/epbench/epbench/tune/ep"
)

// Key identifies what a row is for: a problem without token counts, and a routing class.
type Key struct {
	Op           ep.Op    `json:"op"`
	Mode         ep.Mode  `json:"mode"`
	Ranks        int      `json:"ranks"`
	Nodes        int      `json:"nodes"`
	Hidden       int      `json:"hidden"`
	Experts      int      `json:"experts"`
	TopK         int      `json:"top_k"`
	Dispatch     ep.DType `json:"dispatch"`
	Combine      ep.DType `json:"combine"`
	SharedExpert bool     `json:"shared_expert"`
	SkipA2A      bool     `json:"skip_a2a"`
	Routing      ep.Class `json:"routing"` // a row with AllRoutings answers every class

	Precision ep.Precision `json:"precision"` // a caller that needs Full never gets Reduced

	// Objective is the time that the row minimizes.
	Objective ep.Objective `json:"objective,omitzero"`
	Layout    ep.Layout    `json:"layout,omitzero"` // layout of received rows; files omit "expert"
}

// KeyOf returns the key of a problem under a routing class.
func KeyOf(p ep.Problem, c ep.Class) Key {
	return Key{
		Op: p.Op, Mode: p.Mode, Ranks: p.Ranks, Nodes: p.Nodes,
		Hidden: p.Hidden, Experts: p.Experts, TopK: p.TopK,
		Dispatch: p.Dispatch, Combine: p.Combine,
		SharedExpert: p.SharedExpert, SkipA2A: p.SkipA2A, Routing: c, Precision: p.Precision, Objective: p.Objective,
		Layout: p.Layout,
	}
}

// Problem returns the problem of k with `tokens` tokens. Its buffers have room for this number.
func (k Key) Problem(tokens int) ep.Problem {
	return ep.Problem{
		Op: k.Op, Mode: k.Mode, Ranks: k.Ranks, Nodes: k.Nodes,
		Hidden: k.Hidden, Experts: k.Experts, TopK: k.TopK,
		Tokens: tokens, MaxTokens: max(tokens, 1),
		Dispatch: k.Dispatch, Combine: k.Combine,
		SharedExpert: k.SharedExpert, SkipA2A: k.SkipA2A, Precision: k.Precision, Objective: k.Objective, Layout: k.Layout,
	}
}

// Fields lists the JSON names of a Key's fields in the order of Vector.
func Fields() []string {
	return []string{"op", "mode", "ranks", "nodes", "hidden", "experts", "top_k",
		"dispatch", "combine", "shared_expert", "skip_a2a", "routing", "precision", "objective", "layout"}
}

// FallbackFields lists the fields in which a fallback row may differ from the question.
func FallbackFields() []string {
	return []string{"mode", "hidden", "experts", "top_k", "shared_expert", "routing"}
}

// KeyFields is the length of Fields.
const KeyFields = 15

const (
	opField        = 0
	dispatchField  = 7
	routingField   = 11
	precisionField = 12
	objectiveField = 13
	layoutField    = 14
)

// Vector returns the key as numbers, in the order of Fields. An unknown name gives -1.
func (k Key) Vector() [KeyFields]int {
	return [KeyFields]int{
		slices.Index(ep.RowOps(), k.Op), slices.Index(ep.Modes(), k.Mode),
		k.Ranks, k.Nodes, k.Hidden, k.Experts, k.TopK,
		slices.Index(ep.DTypes(), k.Dispatch), slices.Index(ep.DTypes(), k.Combine),
		bit(k.SharedExpert), bit(k.SkipA2A), slices.Index(ep.Classes(), k.Routing),
		slices.Index(ep.Precisions(), k.Precision), slices.Index(ep.Objectives(), k.Objective),
		slices.Index(ep.Layouts(), k.Layout),
	}
}

// Words returns the key as text, in the order of Fields.
func (k Key) Words() []string {
	return []string{string(k.Op), string(k.Mode), strconv.Itoa(k.Ranks), strconv.Itoa(k.Nodes),
		strconv.Itoa(k.Hidden), strconv.Itoa(k.Experts), strconv.Itoa(k.TopK),
		string(k.Dispatch), string(k.Combine), strconv.Itoa(bit(k.SharedExpert)), strconv.Itoa(bit(k.SkipA2A)),
		string(k.Routing), k.Precision.String(), k.Objective.String(), k.Layout.String()}
}

// String spells the key as field=value words. It omits precision, objective and layout if they have their usual values.
func (k Key) String() string {
	words := k.Words()
	for i, f := range Fields() {
		words[i] = f + "=" + words[i]
	}
	if k.Layout == ep.LayoutExpert {
		words = words[:layoutField]
	}
	if k.Objective == ep.Alone {
		words = slices.Delete(words, objectiveField, objectiveField+1)
	}
	if k.Precision == ep.Full {
		words = slices.Delete(words, precisionField, precisionField+1)
	}
	return strings.Join(words, " ")
}

// Validate refuses a key with an invalid problem or an unknown routing class.
func (k Key) Validate() error {
	if err := k.Problem(0).Validate(); err != nil {
		return err
	}
	_, err := ep.ParseClass(string(k.Routing))
	return err
}

func compareKeys(a, b Key) int {
	va, vb := a.Vector(), b.Vector()
	return slices.Compare(va[:], vb[:])
}

func compareRows(a, b Row) int {
	return cmp.Or(compareKeys(a.Key, b.Key), cmp.Compare(a.Lo, b.Lo))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
