package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// maxJSON bounds a JSON file, which is read whole: 100 layers of 512 experts
// over 100 steps have 40 MB.
const maxJSON = 256 << 20

// openJSON reads counts as nested arrays, or an object with such arrays under
// the names that recorders give them: {"logical_count": [[...], ...]}.
func openJSON(path string, o Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJSON+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxJSON:
		return nil, fmt.Errorf("larger than %d bytes; save a .npy", maxJSON)
	}
	all, err := jsonArrays(bytes.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	main, _, err := pick(all, o)
	if err != nil {
		return nil, err
	}
	return fromArrays(main, nil, o)
}

// jsonArrays reads the arrays of an object in the order of their names, or
// the one array that the file is.
func jsonArrays(text []byte) ([]*array, error) {
	if len(text) == 0 || text[0] != '{' {
		a, err := jsonArray(text)
		return []*array{a}, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("%.80s", err)
	}
	var all []*array
	for name, m := range members {
		if len(m) == 0 || m[0] != '[' || !slices.Contains(countNames, name) && !slices.Contains(idNames, name) {
			continue
		}
		a, err := jsonArray(m)
		if err != nil {
			return nil, fmt.Errorf("%.40q: %w", name, err)
		}
		a.name = name
		all = append(all, a)
	}
	return all, nil // pick goes by name, so their order does not matter
}

// jsonArray flattens up to three levels of arrays of numbers.
func jsonArray(text []byte) (*array, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	j := &flattener{dec: dec}
	t, err := dec.Token()
	if err == nil && t != json.Delim('[') {
		err = errors.New("write an array of counts, or an object with one named logical_count")
	}
	if err == nil {
		err = j.level(0)
	}
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = errors.New("text after the array")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%.120s", err)
	}
	return &array{
		dtype: dtype{kind: 'i', size: 8}, shape: j.shape,
		open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(j.data)), nil },
	}, nil
}

type flattener struct {
	dec   *json.Decoder
	shape []int // -1 while the first array of a level is open
	leaf  int   // level of the numbers plus one, 0 before the first
	data  []byte
}

// level reads the array whose bracket has been read.
func (j *flattener) level(depth int) error {
	if depth == 3 {
		return errors.New("more than three levels of arrays")
	}
	if j.leaf > 0 && depth >= j.leaf {
		return errors.New("an array in the place of numbers")
	}
	if len(j.shape) == depth {
		j.shape = append(j.shape, -1)
	}
	n := 0
	for ; j.dec.More(); n++ {
		t, err := j.dec.Token()
		if err != nil {
			return err
		}
		if t == json.Delim('[') {
			err = j.level(depth + 1)
		} else {
			err = j.number(t, depth)
		}
		if err != nil {
			return err
		}
	}
	if _, err := j.dec.Token(); err != nil {
		return err
	}
	if j.shape[depth] >= 0 && j.shape[depth] != n {
		return fmt.Errorf("arrays of %d and of %d elements side by side", j.shape[depth], n)
	}
	j.shape[depth] = n
	return nil
}

func (j *flattener) number(t json.Token, depth int) error {
	num, ok := t.(json.Number)
	if !ok || j.leaf > 0 && j.leaf != depth+1 {
		return fmt.Errorf("%v is not a number in the place of others", t)
	}
	v, err := num.Float64()
	if err != nil || v != math.Trunc(v) || math.Abs(v) > 1<<53 {
		return fmt.Errorf("%.20s is not a whole number", num)
	}
	j.leaf = depth + 1
	j.data = binary.LittleEndian.AppendUint64(j.data, uint64(int64(v)))
	return nil
}
