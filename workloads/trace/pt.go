package trace

import (
	"archive/zip"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/epbench/epbench/tune/bounded"
)

// SGLang's expert distribution recorder writes .pt files (sgl-project/sglang 02295fe,
// python/sglang/srt/eplb/expert_distribution.py):
//   - _StatAccumulator.dump writes a dict with logical_count [steps, layers, experts].
//   - _DetailAccumulator.dump writes a file for each rank: a dict with records and
//     last_physical_to_logical_map. A record has rank and global_physical_count [layers, physical
//     experts]. In mode per_token, it also has topk_ids_of_layer [layers, tokens, 8]; missing ids
//     are -1.

const (
	maxPickle = 64 << 20
	maxValues = 1 << 22
)

// openPT reads a file of torch.save: a zip. NAME/data.pkl is a pickle of the object, NAME/data/KEY
// holds the bytes of a storage, and NAME/byteorder is the byte order.
func openPT(path string, o Options) (*Reader, error) {
	var ranks []int
	r, err := openArchive(path, o, func(z *zip.Reader, cost *bounded.Budget) (all []*array, err error) {
		all, ranks, err = ptArrays(z, cost)
		return all, err
	})
	if errors.Is(err, zip.ErrFormat) {
		return nil, errors.New("not a zip: save with torch.save of PyTorch 1.6 or later")
	}
	if r != nil {
		r.ranks = ranks
	}
	return r, err
}

func ptArrays(z *zip.Reader, cost *bounded.Budget) (arrays []*array, ranks []int, err error) {
	i := slices.IndexFunc(z.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, "/data.pkl") })
	if i < 0 {
		return nil, nil, errors.New("data.pkl is missing: not written by torch.save")
	}
	root := strings.TrimSuffix(z.File[i].Name, "data.pkl")
	pickle, err := readMember(z.File[i], maxPickle, cost)
	if err != nil {
		return nil, nil, fmt.Errorf("data.pkl: %w", err)
	}
	obj, err := unpickle(pickle, cost)
	if err != nil {
		return nil, nil, fmt.Errorf("data.pkl: %w", err)
	}
	p := ptFile{members: map[string]*zip.File{}, cost: cost, left: maxValues}
	for _, f := range z.File {
		if rest, ok := strings.CutPrefix(f.Name, root); ok {
			p.members[rest] = f
		}
	}
	if f := p.members["byteorder"]; f != nil {
		order, err := readMember(f, 64, cost)
		if err != nil {
			return nil, nil, fmt.Errorf("byteorder: %w", err)
		}
		p.big = string(order) == "big"
	}
	if err := p.collect("tensor", obj, 0); err != nil {
		return nil, nil, err
	}
	return p.found, p.ranks, nil
}

func readMember(f *zip.File, most int64, cost *bounded.Budget) ([]byte, error) {
	in, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return cost.ReadAll("text", in, most)
}

type ptFile struct {
	members map[string]*zip.File
	big     bool
	found   []*array
	cost    *bounded.Budget
	left    int // limits the values that collect visits
	ranks   []int
}

func (p *ptFile) collect(name string, v any, depth int) error {
	if p.left--; depth > 16 || p.left < 0 {
		return errors.New("data.pkl: nested too deeply")
	}
	switch v := v.(type) {
	case *tensor:
		a, err := p.array(name, v)
		if err != nil {
			a = &array{name: name, bad: fmt.Errorf("tensor %.40q: %w", name, err)}
		}
		p.found = append(p.found, a)
	case *pdict:
		for i, key := range v.keys {
			if s, ok := key.(string); ok {
				if rank, ok := v.values[i].(int64); ok && s == "rank" && !slices.Contains(p.ranks, int(rank)) {
					p.ranks = append(p.ranks, int(rank))
				}
				if err := p.collect(s, v.values[i], depth+1); err != nil {
					return err
				}
			}
		}
	case *plist:
		for _, item := range v.items {
			if err := p.collect(name, item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

var storages = map[string]elem{
	"ByteStorage":     {kind: 'u', size: 1},
	"CharStorage":     {kind: 'i', size: 1},
	"ShortStorage":    {kind: 'i', size: 2},
	"IntStorage":      {kind: 'i', size: 4},
	"LongStorage":     {kind: 'i', size: 8},
	"HalfStorage":     {kind: 'f', size: 2},
	"BFloat16Storage": {kind: 'b', size: 2},
	"FloatStorage":    {kind: 'f', size: 4},
	"DoubleStorage":   {kind: 'f', size: 8},
}

func (p *ptFile) array(name string, t *tensor) (*array, error) {
	d, ok := storages[t.class]
	if !ok {
		return nil, fmt.Errorf("storage type %.40q cannot be read", t.class)
	}
	d.big = p.big
	n, err := elements(t.shape)
	if err != nil {
		return nil, err
	}
	if !t.contiguous() {
		return nil, fmt.Errorf("shape %v has strides %v; save t.contiguous()", t.shape, t.stride)
	}
	f := p.members["data/"+t.key]
	start := t.offset * int64(d.size)
	if f == nil || t.offset < 0 || t.offset > maxElements || uint64(start+n*int64(d.size)) > f.UncompressedSize64 {
		return nil, fmt.Errorf("truncated: storage %.20q does not hold shape %v at %d", t.key, t.shape, t.offset)
	}
	return &array{name: name, elem: d, shape: t.shape, open: unpacked(f, start, p.cost)}, nil
}
