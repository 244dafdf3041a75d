package trace

import (
	"bufio"
	"fmt"
	"io"
	"math"
)

// countReader adds up one layer of arrays [experts], [layers, experts] or
// [steps, layers, experts].
func countReader(parts []*array, o Options) (*Reader, error) {
	experts := 0
	for _, a := range parts {
		nd := len(a.shape)
		if nd < 1 || nd > 3 {
			return nil, fmt.Errorf("shape %v: counts are [experts], [layers, experts] or [steps, layers, experts]", a.shape)
		}
		e := a.shape[nd-1]
		if e < 1 || e > MaxExperts {
			return nil, fmt.Errorf("shape %v: experts are outside 1 to %d", a.shape, MaxExperts)
		}
		if experts != 0 && e != experts {
			return nil, fmt.Errorf("shape %v: experts were %d before", a.shape, experts)
		}
		experts = e
		_, layers := a.stepsLayers()
		if err := checkLayer(layers, o.Layer); err != nil {
			return nil, err
		}
	}
	return &Reader{Kind: Counts, counts: func() ([]int64, error) {
		sum := make([]int64, experts)
		for _, a := range parts {
			if err := a.addCounts(sum, max(o.Layer, 0)); err != nil {
				return nil, err
			}
		}
		return sum, nil
	}}, nil
}

// stepsLayers is the sizes of the axes before the experts, 1 where missing.
func (a *array) stepsLayers() (steps, layers int) {
	shape := append([]int{1, 1}, a.shape...)
	return shape[len(shape)-3], shape[len(shape)-2]
}

func (a *array) addCounts(sum []int64, layer int) error {
	in, err := a.open()
	if err != nil {
		return err
	}
	defer in.Close()
	steps, layers := a.stepsLayers()
	buf := bufio.NewReaderSize(in, 1<<20)
	row := make([]byte, len(sum)*a.elem.size)
	for i := range steps * layers {
		if _, err := io.ReadFull(buf, row); err != nil {
			return truncated(err, int64(steps*layers-i))
		}
		if i%layers != layer {
			continue
		}
		if err := a.elem.add(sum, row); err != nil {
			return err
		}
	}
	return nil
}

// add adds a row of counts to sum. Some recorders store counts as floats.
func (d elem) add(sum []int64, row []byte) error {
	for e := range sum {
		v := d.float(row[e*d.size:])
		if !(v >= 0 && v <= 1<<53) || v != math.Trunc(v) {
			return fmt.Errorf("expert %d: %v is not a count", e, v)
		}
		if sum[e] += int64(v); sum[e] > maxCount {
			return fmt.Errorf("expert %d: more than %d visits", e, int64(maxCount))
		}
	}
	return nil
}

// maxCount is chosen so that MaxExperts counts add up within int64.
const maxCount = 1 << 46
