package trace

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// csvCounts reads the whole file: one number for each layer and expert.
func csvCounts(cr *csv.Reader, head []string, o Options) (*Reader, error) {
	col := func(name string) int { return slices.Index(head, name) }
	layer, expert, count := col("layer_id"), col("expert_id"), col("count")
	if expert < 0 {
		return nil, errors.New("counts need a header: expert_id,count or layer_id,expert_id,count")
	}
	t := countTable{layers: map[int]map[int]int64{}}
	for {
		rec, err := cr.Read()
		if err == io.EOF {
			return t.reader(o)
		}
		if err != nil {
			return nil, csvError(err)
		}
		line, _ := cr.FieldPos(0)
		l := 0
		if layer >= 0 {
			if l, err = strconv.Atoi(rec[layer]); err != nil || l < 0 || l > 10_000 {
				return nil, fmt.Errorf("line %d: layer %.20q is outside 0 to 10000", line, rec[layer])
			}
		}
		e, err := strconv.Atoi(rec[expert])
		if err != nil || e < 0 || e >= MaxExperts {
			return nil, fmt.Errorf("line %d: expert %.20q is outside 0 to %d", line, rec[expert], MaxExperts-1)
		}
		n, err := strconv.ParseInt(rec[count], 10, 64)
		if err != nil || n < 0 || n > maxCount {
			return nil, fmt.Errorf("line %d: %.20q is not a count", line, rec[count])
		}
		if err := t.add(l, e, n); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// countTable is counts by layer and expert. Its size is that of the file.
type countTable struct {
	layers map[int]map[int]int64
	last   int // highest layer
}

func (t *countTable) add(layer, expert int, n int64) error {
	if t.layers[layer] == nil {
		t.layers[layer] = map[int]int64{}
	}
	t.last = max(t.last, layer)
	if t.layers[layer][expert] += n; t.layers[layer][expert] > maxCount {
		return fmt.Errorf("expert %d: more than %d visits", expert, int64(maxCount))
	}
	return nil
}

func (t *countTable) reader(o Options) (*Reader, error) {
	if err := checkLayer(t.last+1, o.Layer); err != nil {
		return nil, err
	}
	experts := 0
	for _, byExpert := range t.layers {
		for e := range byExpert {
			experts = max(experts, e+1)
		}
	}
	if experts == 0 {
		return nil, errors.New("no rows")
	}
	out := make([]int64, experts)
	for e, n := range t.layers[max(o.Layer, 0)] {
		out[e] = n
	}
	return &Reader{Kind: Counts, counts: func() ([]int64, error) { return out, nil }}, nil
}
