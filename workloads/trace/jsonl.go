package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// openJSONL reads a token a line: an array of ids, or an object with topk_ids
// and maybe topk_weights. Other keys are left alone: recorders add their own.
func openJSONL(path string, _ Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 4096), maxLine)
	line := 0
	l := &lines{f: f}
	l.parse = func() ([]int32, []float32, error) {
		for sc.Scan() {
			line++
			if text := strings.TrimSpace(sc.Text()); text != "" {
				ids, ws, err := parseJSONRow(text)
				if err != nil {
					return nil, nil, fmt.Errorf("line %d: %w", line, err)
				}
				return ids, ws, nil
			}
		}
		if errors.Is(sc.Err(), bufio.ErrTooLong) {
			return nil, nil, fmt.Errorf("line %d: longer than %d bytes", line+1, maxLine)
		}
		if sc.Err() != nil {
			return nil, nil, sc.Err()
		}
		return nil, nil, io.EOF
	}
	return l.reader()
}

func parseJSONRow(text string) ([]int32, []float32, error) {
	var row struct {
		IDs     []int32   `json:"topk_ids"`
		Weights []float32 `json:"topk_weights"`
	}
	var target any = &row
	if text[0] == '[' {
		target = &row.IDs
	}
	if err := json.Unmarshal([]byte(text), target); err != nil {
		return nil, nil, fmt.Errorf("%.80s", err)
	}
	if len(row.IDs) == 0 {
		return nil, nil, errors.New(`no "topk_ids"`)
	}
	for _, w := range row.Weights {
		if !goodWeight(float64(w)) {
			return nil, nil, fmt.Errorf("%v is not a weight", w)
		}
	}
	return row.IDs, row.Weights, nil
}
