package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// array is an n-dimensional array in row-major order, streamed.
type array struct {
	name  string
	elem  elem
	shape []int
	open  func() (io.ReadCloser, error) // its bytes

	rows, layers, k int  // sizes of the axes, see findAxes
	rowsFirst       bool // [rows, layers, k], not [layers, rows, k]
}

// maxElements bounds an array. A larger one is a mistake or an attack.
const maxElements = 1 << 46

// elements is the number of elements of a shape. A negative or too large one is
// an error.
func elements(shape []int) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > maxElements/int64(d) {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		n *= int64(d)
	}
	return n, nil
}

// The names that recorders give their arrays. SGLang's writes logical_count,
// global_physical_count and topk_ids_of_layer; vLLM's gives routed_experts and
// its load windows expert_load; vllm-ascend moe_load.
var (
	countNames  = []string{"logical_count", "global_physical_count", "expert_load", "moe_load", "expert_counts", "counts"}
	idNames     = []string{"topk_ids", "topk_ids_of_layer", "routed_experts", "topk_idx", "ids", "experts"}
	weightNames = []string{"topk_weights", "weights"}
)

// kindOf decides what an array holds: by the option, by its name, by its shape.
func (a *array) kindOf(o Options) Kind {
	switch {
	case o.Kind != "":
		return o.Kind
	case slices.Contains(countNames, a.name):
		return Counts
	case slices.Contains(idNames, a.name):
		return IDs
	case len(a.shape) < 2 || a.shape[len(a.shape)-1] > MaxTopK:
		return Counts
	}
	return IDs
}

// pick finds the arrays to read in an archive: those called o.Array, or those
// with the first known name. There are several of one name where a recorder
// split a trace.
func pick(all []*array, o Options) (main, weights []*array, err error) {
	want := append(slices.Clone(countNames), idNames...)
	switch {
	case o.Array != "":
		want = []string{o.Array}
	case len(all) == 1:
		want = []string{all[0].name}
	}
	for _, name := range want {
		if main = named(all, name); main != nil {
			break
		}
	}
	if main == nil {
		return nil, nil, fmt.Errorf("no array named %s; there are: %s", strings.Join(want, ", "), names(all))
	}
	if main[0].kindOf(o) == Counts {
		return main, nil, nil
	}
	for _, name := range weightNames {
		if weights = named(all, name); weights != nil && weights[0].name != main[0].name {
			return main, weights, nil
		}
	}
	return main, nil, nil
}

func named(all []*array, name string) (out []*array) {
	for _, a := range all {
		if a.name == name {
			out = append(out, a)
		}
	}
	return out
}

func names(all []*array) string {
	var out []string
	for _, a := range all {
		if !slices.Contains(out, a.name) {
			out = append(out, fmt.Sprintf("%.40q", a.name))
		}
		if len(out) == 8 {
			out = append(out, "...")
			break
		}
	}
	if out == nil {
		return "none"
	}
	return strings.Join(out, ", ")
}

// fromArrays makes a Reader of arrays that continue each other.
func fromArrays(main, weights []*array, o Options) (*Reader, error) {
	kind, tokensFirst := main[0].kindOf(o), o.TokensFirst || main[0].name == "routed_experts"
	ids, err := newRows(main, kind, o, tokensFirst)
	if err != nil {
		return nil, err
	}
	if kind == Counts {
		return &Reader{Kind: Counts, counts: ids.sum}, nil
	}
	for _, a := range main {
		if a.elem.kind == 'f' || a.elem.kind == 'b' {
			return nil, fmt.Errorf("ids are of type %s; save them as integers%s", a.elem, a.elem.logits())
		}
	}
	r := &Reader{Kind: IDs, TopK: ids.k, close: ids.close}
	if o.Kind == "" && !slices.Contains(idNames, main[0].name) {
		r.guess = "; if these are counts, epbench workload import FILE --kind counts"
	}
	r.next = func(dst []int32, _ []float32) (int, error) { return ids.read(dst, nil) }
	if weights == nil {
		return r, nil
	}
	w, err := newRows(weights, IDs, o, tokensFirst)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if w.k != ids.k || w.count != ids.count {
		return nil, fmt.Errorf("weights are %d x %d, ids %d x %d", w.count, w.k, ids.count, ids.k)
	}
	r.Weights = true
	r.next = func(dst []int32, ws []float32) (int, error) {
		n, err := ids.read(dst, nil)
		for done := 0; ws != nil && done < n; {
			m, bad := w.read(nil, ws[done*w.k:n*w.k])
			if bad != nil {
				return 0, fmt.Errorf("weights: %w", bad)
			}
			done += m
		}
		return n, err
	}
	r.close = func() error { return errors.Join(ids.close(), w.close()) }
	return r, nil
}
