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
	"unicode"
)

// maxJSON bounds a JSON file, which is read whole and may take 9 times its size
// in memory. 100 layers of 512 experts over 100 steps have 40 MB.
const maxJSON = 128 << 20

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

// jsonArrays reads the known arrays of an object, or the one array that the
// file consists of.
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
	return all, nil // in any order: pick goes by name
}

// jsonArray reads up to three levels of arrays of whole numbers.
func jsonArray(text []byte) (*array, error) {
	depth := 0
	for _, c := range text {
		if c == '[' {
			depth++
		} else if !unicode.IsSpace(rune(c)) {
			break
		}
	}
	steps := [][][]float64{{nil}}
	var target any
	switch depth {
	case 1:
		target = &steps[0][0]
	case 2:
		target = &steps[0]
	case 3:
		target = &steps
	default:
		return nil, errors.New("write one to three levels of arrays of counts, or an object with such an array named logical_count")
	}
	if bytes.Contains(text, []byte("null")) {
		return nil, errors.New("null in the place of a number")
	}
	if err := json.Unmarshal(text, target); err != nil {
		return nil, fmt.Errorf("not %d levels of arrays of numbers: %.80s", depth, err)
	}
	return flatten(steps, depth)
}

// flatten puts numbers side by side; arrays of one level must be of one length.
func flatten(steps [][][]float64, depth int) (*array, error) {
	if len(steps) == 0 || len(steps[0]) == 0 {
		return nil, errors.New("an array is empty")
	}
	shape := []int{len(steps), len(steps[0]), len(steps[0][0])}
	var data []byte
	for _, layers := range steps {
		if len(layers) != shape[1] {
			return nil, fmt.Errorf("arrays of %d and of %d elements side by side", shape[1], len(layers))
		}
		for _, row := range layers {
			if len(row) != shape[2] {
				return nil, fmt.Errorf("arrays of %d and of %d elements side by side", shape[2], len(row))
			}
			for _, v := range row {
				if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
					return nil, fmt.Errorf("%v is not a whole number", v)
				}
				data = binary.LittleEndian.AppendUint64(data, uint64(int64(v)))
			}
		}
	}
	return &array{
		elem: elem{kind: 'i', size: 8}, shape: shape[3-depth:],
		open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
	}, nil
}
