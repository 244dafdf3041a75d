package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// openJSONL reads one token per line: an array of ids, or an object with topk_ids and, optionally,
// topk_weights. openJSONL leaves recordings of Megatron-core to openMegatron.
func openJSONL(path string, o Options) (*Reader, error) {
	if begins, err := beginsLike(path, isMegatron); err != nil || begins {
		if err != nil {
			return nil, err
		}
		return openMegatron(path, o)
	}
	return openText(path, func(l *lines, first string) (*Reader, error) { return l.tokens(first, parseJSONRow) })
}

func beginsLike(path string, like func(string) bool) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		err = nil
	}
	return like(strings.TrimSpace(string(head[:n]))), err
}

type jsonRow struct {
	IDs     []int32   `json:"topk_ids"`
	Weights []float32 `json:"topk_weights,omitempty"`
}

func parseJSONRow(text string) ([]int32, []float32, error) {
	var row jsonRow
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
