package trace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// maxSafeHeader allows about 300,000 tensors.
const maxSafeHeader = 32 << 20

var (
	statisticKey  = regexp.MustCompile(`^(\d+)_(\d+)$`)
	statisticFile = regexp.MustCompile(`^rank(\d+)\.safetensors$`)
)

var safeTypes = map[string]elem{
	"U8": {kind: 'u', size: 1}, "I8": {kind: 'i', size: 1}, "U16": {kind: 'u', size: 2}, "I16": {kind: 'i', size: 2}, "U32": {kind: 'u', size: 4}, "I32": {kind: 'i', size: 4},
	"U64": {kind: 'u', size: 8}, "I64": {kind: 'i', size: 8}, "F16": {kind: 'f', size: 2}, "BF16": {kind: 'b', size: 2}, "F32": {kind: 'f', size: 4}, "F64": {kind: 'f', size: 8},
}

// openSafetensors reads TensorRT-LLM's statistics, or one array of any other file. A .safetensors
// file holds the length of a JSON header (8 bytes), the header, and the bytes of the tensors.
//
// TensorRT-LLM writes statistics if the environment variables EXPERT_STATISTIC_ITER_RANGE and EXPERT_STATISTIC_PATH are
// set (NVIDIA/TensorRT-LLM 0fccc5b, tensorrt_llm/_torch/expert_statistic.py, ExpertStatistic._set_iter). The file
// rank{N}.safetensors holds a tensor for each iteration and layer, with the name ITERATION_LAYER. A tensor has the
// counts [experts] of this rank's tokens.
func openSafetensors(path string, o Options) (*Reader, error) {
	all, err := safeArrays(path)
	if err != nil {
		return nil, err
	}
	if o.Array == "" && len(all) > 0 && !slices.ContainsFunc(all, func(a *array) bool { return !statisticKey.MatchString(a.name) }) {
		return openStatistic(path, all, o)
	}
	return fromArchive(all, o)
}

func safeArrays(path string) ([]*array, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var size [8]byte
	if _, err := io.ReadFull(f, size[:]); err != nil {
		return nil, errors.New("not a .safetensors file: no header")
	}
	length := binary.LittleEndian.Uint64(size[:])
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if length > maxSafeHeader || int64(length)+8 > info.Size() {
		return nil, fmt.Errorf("header of %d bytes in a file of %d, the bound is %d", length, info.Size(), maxSafeHeader)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, errors.New("header: truncated")
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, fmt.Errorf("header: %.80s", err)
	}
	var all []*array
	for name, raw := range header {
		if name == "__metadata__" {
			continue
		}
		a := &array{name: name}
		if a.bad = a.safe(raw, path, int64(length)+8, info.Size()); a.bad != nil {
			a.bad = fmt.Errorf("tensor %.40q: %w", name, a.bad)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *array) int { return compareKeys(a.name, b.name) })
	return all, nil
}

func (a *array) safe(raw json.RawMessage, path string, base, fileSize int64) error {
	var entry struct {
		DType   string  `json:"dtype"`
		Shape   []int   `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw, &entry); err != nil {
		return fmt.Errorf("%.80s", err)
	}
	e, known := safeTypes[entry.DType]
	n, err := elements(entry.Shape)
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("type %.20q cannot be read", entry.DType)
	case len(entry.Offsets) != 2 || entry.Offsets[0] < 0 || entry.Offsets[1]-entry.Offsets[0] != n*int64(e.size) || base+entry.Offsets[1] > fileSize:
		return fmt.Errorf("truncated: shape %v of %s does not fit bytes %v of the file", entry.Shape, e, entry.Offsets)
	}
	a.elem, a.shape = e, entry.Shape
	a.open = after(base+entry.Offsets[0], func() (io.ReadCloser, error) { return os.Open(path) })
	return nil
}

// compareKeys orders keys ITERATION_LAYER by layer, then by iteration.
func compareKeys(a, b string) int {
	x, y := statisticKey.FindStringSubmatch(a), statisticKey.FindStringSubmatch(b)
	if x == nil || y == nil {
		return compareNatural(a, b)
	}
	return compareNatural(x[2]+" "+x[1], y[2]+" "+y[1])
}

func openStatistic(path string, all []*array, o Options) (*Reader, error) {
	byLayer := map[int][]*array{}
	for _, a := range all {
		layer, err := strconv.Atoi(statisticKey.FindStringSubmatch(a.name)[2])
		if err != nil || layer > maxLayers {
			return nil, fmt.Errorf("tensor %.40q: the layer is outside 0 to %d", a.name, maxLayers)
		}
		byLayer[layer] = append(byLayer[layer], a)
	}
	var layers []int
	for l := range byLayer {
		layers = append(layers, l)
	}
	slices.Sort(layers)
	layer := o.Layer
	if layer < 0 {
		if len(layers) != 1 {
			return nil, fmt.Errorf("%s; choose one, epbench workload import FILE --layer %d", spans(layers), layers[0])
		}
		layer = layers[0]
	}
	if byLayer[layer] == nil {
		return nil, fmt.Errorf("nothing was recorded in layer %d; %s", layer, spans(layers))
	}
	o.Kind, o.Layer, o.Axes = Counts, -1, []Axis{Experts}
	r, err := fromArrays(byLayer[layer], nil, o)
	if err != nil {
		return nil, err
	}
	r.recordedLayers = func() []int { return layers }
	r.counts = r.compareLayers(r.counts, byLayer, layer)
	if m := statisticFile.FindStringSubmatch(filepath.Base(path)); m != nil {
		rank, _ := strconv.Atoi(m[1])
		r.ranks = []int{rank}
	}
	return r, r.checkMeta(filepath.Join(filepath.Dir(path), "meta_info.json"))
}

func (r *Reader) compareLayers(read func() ([]int64, error), byLayer map[int][]*array, layer int) func() ([]int64, error) {
	return func() ([]int64, error) {
		counts, err := read()
		if err != nil {
			return nil, err
		}
		totals := make([]int64, slices.Max(slices.Collect(maps.Keys(byLayer)))+1)
		for l, parts := range byLayer {
			t, err := layerTotals(parts, Counts, Options{Axes: []Axis{Experts}})
			if err != nil {
				return nil, err
			}
			totals[l] = t[0]
		}
		r.noteTotals(layer, totals)
		return counts, nil
	}
}

// checkMeta makes r compare the counts with meta_info.json.
func (r *Reader) checkMeta(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		r.note("meta_info.json is not in the folder of the file: the number of experts cannot be checked")
		return nil
	}
	var meta struct {
		Experts int   `json:"num_experts"`
		TopK    int64 `json:"num_experts_per_token"`
	}
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	if err != nil {
		return fmt.Errorf("meta_info.json: %w", err)
	}
	read := r.counts
	r.counts = func() ([]int64, error) {
		counts, err := read()
		if err != nil {
			return nil, err
		}
		var sum int64
		for _, n := range counts {
			sum += n
		}
		if len(counts) != meta.Experts {
			return nil, fmt.Errorf("the file has counts of %d experts, but num_experts in meta_info.json is %d", len(counts), meta.Experts)
		}
		if meta.TopK > 0 && sum%meta.TopK != 0 {
			return nil, fmt.Errorf("%d selections are not a multiple of %d, which is num_experts_per_token in meta_info.json", sum, meta.TopK)
		}
		return counts, nil
	}
	return nil
}
