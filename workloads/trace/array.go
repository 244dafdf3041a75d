package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// array is an n-dimensional array in a file, in row-major order.
type array struct {
	name  string
	elem  elem
	shape []int
	open  func() (io.ReadCloser, error)
	bad   error // nil if the array can be read
}

const maxElements = 1 << 46

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

// Programs that record a routing give these names to their arrays. If a file has ids and other
// arrays, the ids are read.
var (
	idNames     = []string{"topk_ids", "topk_ids_of_layer", "routed_experts", "topk_idx", "ids", "experts"}
	countNames  = []string{"logical_count", "global_physical_count", "expert_load", "expert_load_window", "moe_load", "expert_counts", "counts"}
	logitNames  = []string{"router_logits", "router_logits_of_layer", "logits"}
	weightNames = []string{"topk_weights", "weights"}
)

// kindOf returns what an array holds. It decides by the option Kind, or else by a known name of the array, or else by
// the option Axes, or else by the shape.
func (a *array) kindOf(o Options) Kind {
	switch {
	case o.Kind != "":
		return o.Kind
	case slices.Contains(countNames, a.name):
		return Counts
	case slices.Contains(idNames, a.name):
		return IDs
	case slices.Contains(logitNames, a.name):
		return Logits
	case slices.Contains(o.Axes, TopK):
		return IDs
	case len(a.shape) < 2 || a.shape[len(a.shape)-1] > MaxTopK:
		return Counts
	}
	return IDs
}

// pick returns the arrays to read. All have the name o.Array. If o.Array is "", pick tries the known names of the
// wanted kind one after the other, until the file has arrays of this name. A file's only array needs no known name. For
// ids, pick also returns the arrays of the router weights, if there are any.
func pick(all []*array, o Options) (main, weights []*array, err error) {
	want := map[Kind][]string{IDs: idNames, Counts: countNames, Logits: logitNames}[o.Kind]
	switch {
	case o.Array != "":
		want = []string{o.Array}
	case len(all) == 1:
		want = []string{all[0].name}
	case o.Kind == "":
		want = slices.Concat(idNames, countNames, logitNames)
	}
	for _, name := range want {
		if main = named(all, name); main != nil {
			break
		}
	}
	if main == nil {
		if o.Array != "" || len(want) == 0 {
			return nil, nil, fmt.Errorf("no array named %.40q; there are: %s", o.Array, names(all))
		}
		return nil, nil, fmt.Errorf("no array with a name that recorders give, such as %s; there are: %s; choose one with --array", want[0], names(all))
	}
	if main[0].bad != nil {
		return nil, nil, main[0].bad
	}
	if main[0].kindOf(o) != IDs {
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
		if name := fmt.Sprintf("%.40q", a.name); !slices.Contains(out, name) {
			out = append(out, name)
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

func fromArrays(main, weights []*array, o Options) (*Reader, error) {
	kind := main[0].kindOf(o)
	if err := checkElements(main, kind); err != nil {
		return nil, err
	}
	in, err := newRows(main, kind, o)
	if err != nil && kind == Counts && o.Kind == "" && !slices.Contains(countNames, main[0].name) {
		return nil, fmt.Errorf("%w%s", err, main[0].elem.logitsHint())
	}
	if err != nil {
		return nil, err
	}
	r := &Reader{Kind: kind, layer: o.Layer, recordedLayers: func() []int {
		totals, _ := layerTotals(main, kind, o) // newRows reported the error
		return withSelections(totals)
	}}
	switch kind {
	case Counts:
		r.counts, r.close = r.checkedSum(in, main, o), in.close
		return r, nil
	case Logits:
		return r, r.fromLogits(in, o)
	}
	r.TopK, r.close = in.k, in.close
	if o.Kind == "" && !slices.Contains(idNames, main[0].name) {
		r.guess = "; if these are counts, epbench workload import FILE --kind counts"
	}
	r.next = func(dst []int32, _ []float32) (int, error) { return in.read(dst, nil) }
	if weights == nil {
		return r, nil
	}
	return r, r.addWeights(in, weights, main[0], o)
}

// checkElements returns an error if ids are floats, because these are mostly router logits. It runs before axesOf,
// because the error of axesOf would not mention logits.
func checkElements(main []*array, kind Kind) error {
	for _, a := range main {
		if kind == IDs && (a.elem.kind == 'f' || a.elem.kind == 'b') {
			return fmt.Errorf("ids are of type %s; save them as integers%s", a.elem, a.elem.logitsHint())
		}
	}
	return nil
}

func (r *Reader) checkedSum(in *rows, main []*array, o Options) func() ([]int64, error) {
	return func() ([]int64, error) {
		sum, err := in.sum()
		if err != nil || in.at[0].layers < 2 {
			return sum, err
		}
		totals, err := layerTotals(main, Counts, o)
		r.noteTotals(o.Layer, totals)
		return sum, err
	}
}

func (r *Reader) fromLogits(in *rows, o Options) error {
	if o.TopK < 1 || o.TopK > min(in.k, MaxTopK) {
		return fmt.Errorf("router logits of %d experts: give --topk, 1 to %d", in.k, min(in.k, MaxTopK))
	}
	logits := &logitRows{rows: in, topK: o.TopK}
	r.Kind, r.TopK, r.close = IDs, o.TopK, in.close
	r.next = func(dst []int32, _ []float32) (int, error) { return logits.read(dst, nil) }
	r.note("the ids are the %d largest router logits of each token: a bias or expert groups of the model's router are not applied", o.TopK)
	return nil
}

func (r *Reader) addWeights(ids *rows, weights []*array, main *array, o Options) error {
	axes, err := main.axesOf(IDs, o)
	if err != nil {
		return err
	}
	o.Axes = axes
	w, err := newRows(weights, IDs, o)
	if err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	if w.k != ids.k || w.count != ids.count {
		return fmt.Errorf("weights are %d x %d, ids %d x %d", w.count, w.k, ids.count, ids.k)
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
	return nil
}
