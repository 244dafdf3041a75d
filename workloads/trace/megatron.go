package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A megatronRecord is one line of a recording of Megatron-core (Megatron-LM d98e8a6). Megatron-core
// writes a file of JSON lines for each rank, of one of two kinds:
//   - router traces (megatron/core/transformer/moe/router_trace.py): a record has the ids of the
//     experts of all tokens in one step and layer.
//   - tokens per expert (megatron/training/activation_logging.py, ActivationLogger.save_tpe): a
//     record belongs to one iteration and layer. For each micro-batch, it lists how many rows each
//     expert of the rank received.
//
// Records of multi-token prediction (block mtp) are left out, because their layers are numbered separately.
type megatronRecord struct {
	Block  string    `json:"block"`
	Layer  int       `json:"layer"`
	Rank   *int      `json:"rank"`
	Tokens *int      `json:"num_tokens"`
	TopK   int       `json:"topk"`
	IDs    [][]int32 `json:"top_indices"`
	Counts [][]int64 `json:"tpe"`
}

// maxRecord allows 32,768 tokens of top-22, which take 4 MB.
const maxRecord = 5 << 20

func isMegatron(line string) bool {
	return strings.HasPrefix(line, "{") && (strings.Contains(line, `"top_indices":`) || strings.Contains(line, `"tpe":`))
}

type megatronFile struct {
	f      *os.File
	in     *bufio.Scanner
	number int // last line read, from 1
	layers map[int]bool
	mtp    int // records of multi-token prediction
	ranks  map[int]bool
}

func openMegatron(path string, o Options) (*Reader, error) {
	m := &megatronFile{layers: map[int]bool{}, ranks: map[int]bool{}}
	var err error
	if m.f, err = os.Open(path); err != nil {
		return nil, err
	}
	r, err := m.read(path, o)
	if err != nil || r.Kind == Counts {
		m.f.Close()
	}
	return r, err
}

func (m *megatronFile) read(path string, o Options) (*Reader, error) {
	topK, tpe, err := m.survey()
	if err != nil {
		return nil, err
	}
	layer, err := m.choose(o.Layer)
	if err != nil {
		return nil, noRows(err)
	}
	if !tpe && topK[layer] < 1 {
		return nil, fmt.Errorf("layer %d: topk is missing", layer)
	}
	var r *Reader
	if tpe {
		r, err = m.counts(layer)
	} else {
		r = m.tokens(layer, topK[layer])
	}
	if err != nil {
		return nil, err
	}
	if m.mtp > 0 {
		r.note("%d records of multi-token prediction are left out", m.mtp)
	}
	r.recordedLayers = func() []int { return sortedKeys(m.layers) }
	if r.ranks = sortedKeys(m.ranks); len(r.ranks) == 0 {
		r.ranks = rankOfName(path)
	}
	if tpe {
		r.localExperts = true
		r.note("each file has the counts of one rank's experts, which are numbered from 0 on each rank")
	}
	return r, nil
}

func rankOfName(path string) []int {
	if m := rankedName.FindStringSubmatch(filepath.Base(path)); m != nil {
		if rank, err := strconv.Atoi(m[1]); err == nil {
			return []int{rank}
		}
	}
	return nil
}

var rankedName = regexp.MustCompile(`rank_?(\d+)\.jsonl$`)

func sortedKeys(set map[int]bool) (out []int) {
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (m *megatronFile) next() (megatronRecord, error) {
	for m.in.Scan() {
		m.number++
		text := m.in.Bytes()
		if len(text) == 0 {
			continue
		}
		var rec megatronRecord
		if err := json.Unmarshal(text, &rec); err != nil {
			return rec, fmt.Errorf("line %d: %.80s", m.number, err)
		}
		if rec.Block == "mtp" {
			m.mtp++
			continue
		}
		return rec, rec.check(m.number)
	}
	if errors.Is(m.in.Err(), bufio.ErrTooLong) {
		return megatronRecord{}, fmt.Errorf("line %d: a record is longer than %d bytes", m.number+1, maxRecord)
	}
	return megatronRecord{}, cmp.Or(m.in.Err(), io.EOF)
}

func (r megatronRecord) check(line int) error {
	switch {
	case r.Layer < 0 || r.Layer > maxLayers:
		return fmt.Errorf("line %d: layer %d is outside 0 to %d", line, r.Layer, maxLayers)
	case r.Tokens != nil && *r.Tokens != len(r.IDs):
		return fmt.Errorf("line %d: num_tokens is %d, but top_indices has %d tokens", line, *r.Tokens, len(r.IDs))
	}
	for t, ids := range r.IDs {
		if len(ids) != r.TopK || len(ids) > MaxTopK {
			return fmt.Errorf("line %d: token %d has %d ids, but topk is %d; at most %d are allowed", line, t, len(ids), r.TopK, MaxTopK)
		}
	}
	for _, batch := range r.Counts {
		for e, n := range batch {
			if n < 0 || n > maxCount || e >= MaxExperts {
				return fmt.Errorf("line %d: expert %d: %d is not a count", line, e, n)
			}
		}
	}
	return nil
}

func (m *megatronFile) rewind() error {
	_, err := m.f.Seek(0, io.SeekStart)
	m.in, m.number, m.mtp = bufio.NewScanner(m.f), 0, 0
	m.in.Buffer(make([]byte, 1<<16), maxRecord)
	return err
}

func (m *megatronFile) survey() (topK map[int]int, tpe bool, err error) {
	if err := m.rewind(); err != nil {
		return nil, false, err
	}
	topK = map[int]int{}
	for {
		rec, err := m.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, false, err
		}
		tpe = tpe || rec.Counts != nil
		if tpe && rec.IDs != nil {
			return nil, false, fmt.Errorf("line %d: the file has both ids and counts", m.number)
		}
		if k, again := topK[rec.Layer]; again && k != rec.TopK {
			return nil, false, fmt.Errorf("line %d: layer %d has top-%d, but an earlier record of this layer has top-%d", m.number, rec.Layer, rec.TopK, k)
		}
		topK[rec.Layer] = rec.TopK
		m.layers[rec.Layer] = true
		if rec.Rank != nil {
			m.ranks[*rec.Rank] = true
		}
	}
	if len(m.ranks) > 1 {
		return nil, false, fmt.Errorf("the file has records of ranks %s; write one file for each rank, as Megatron-core does", joined(sortedKeys(m.ranks)))
	}
	return topK, tpe, nil
}

func (m *megatronFile) choose(asked int) (int, error) {
	have := sortedKeys(m.layers)
	switch {
	case len(have) == 0 && m.mtp > 0:
		return 0, errors.New("all records are of multi-token prediction")
	case len(have) == 0:
		return 0, io.EOF
	case asked >= 0 && !m.layers[asked]:
		return 0, fmt.Errorf("no record of layer %d; %s", asked, spans(have))
	case asked >= 0:
		return asked, nil
	case len(have) > 1:
		return 0, fmt.Errorf("the file has several layers: %s; give --layer", spans(have))
	}
	return have[0], nil
}

func (m *megatronFile) counts(layer int) (*Reader, error) {
	if err := m.rewind(); err != nil {
		return nil, err
	}
	var sum []int64
	for {
		rec, err := m.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if rec.Layer != layer {
			continue
		}
		for _, batch := range rec.Counts {
			if sum == nil {
				sum = make([]int64, len(batch))
			}
			if len(batch) != len(sum) {
				return nil, fmt.Errorf("line %d: %d experts, but the records before it have %d", m.number, len(batch), len(sum))
			}
			for e, n := range batch {
				if sum[e] += n; sum[e] > maxCount {
					return nil, fmt.Errorf("line %d: expert %d: more than %d selections", m.number, e, int64(maxCount))
				}
			}
		}
	}
	return &Reader{Kind: Counts, counts: func() ([]int64, error) { return sum, nil }}, nil
}

func (m *megatronFile) tokens(layer, topK int) *Reader {
	r := &Reader{Kind: IDs, TopK: topK, close: m.f.Close}
	begun, waiting := false, [][]int32(nil)
	r.next = func(dst []int32, _ []float32) (n int, err error) {
		if !begun {
			if begun, err = true, m.rewind(); err != nil {
				return 0, err
			}
		}
		for n < len(dst)/topK {
			if len(waiting) == 0 {
				rec, err := m.next()
				if err != nil {
					return n, err
				}
				if rec.Layer == layer {
					waiting = rec.IDs
				}
				continue
			}
			copy(dst[n*topK:], waiting[0])
			n, waiting = n+1, waiting[1:]
		}
		return n, nil
	}
	return r
}
