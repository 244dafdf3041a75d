package trace

import (
	"cmp"
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

const maxFiles = 1 << 14

// Expand replaces folders and patterns by their readable files. It sorts files by the numbers in their names.
func Expand(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		found := []string{path}
		switch info, err := os.Stat(path); {
		case err == nil && info.IsDir():
			found = nil
			for ext := range formats {
				some, _ := filepath.Glob(filepath.Join(path, "*"+ext)) // valid pattern
				found = append(found, some...)
			}
			found = slices.DeleteFunc(found, func(p string) bool {
				return filepath.Base(p) == "meta_info.json" || strings.HasSuffix(p, "_numtokens.json")
			})
			if len(found) == 0 {
				return nil, fmt.Errorf("%s: this folder has no .npy, .npz, .pt, .csv, .jsonl, .json or .safetensors file", path)
			}
		case err != nil && strings.ContainsAny(path, "*?["):
			some, bad := filepath.Glob(path)
			if bad != nil || len(some) == 0 {
				return nil, fmt.Errorf("%s: no file matches", path)
			}
			found = some
		}
		slices.SortFunc(found, compareNatural)
		out = append(out, found...)
	}
	if len(out) > maxFiles {
		return nil, fmt.Errorf("%d files; a recording has at most %d", len(out), maxFiles)
	}
	return out, nil
}

var digits = regexp.MustCompile(`\d+`)

func compareNatural(a, b string) int {
	x, y := digits.FindAllString(a, -1), digits.FindAllString(b, -1)
	if digits.ReplaceAllString(a, "#") == digits.ReplaceAllString(b, "#") {
		for i := range min(len(x), len(y)) {
			m, _ := strconv.ParseUint(x[i], 10, 64)
			n, _ := strconv.ParseUint(y[i], 10, 64)
			if m != n {
				return cmp.Compare(m, n)
			}
		}
	}
	return cmp.Compare(a, b)
}

// OpenAll opens files as one recording. OpenAll adds up counts, and reads tokens file by file. If
// the files name their ranks, OpenAll orders the files by rank, notes missing ranks, and returns an
// error if two files have the same rank.
func OpenAll(paths []string, o Options) (*Reader, error) {
	paths, err := Expand(paths)
	if err != nil {
		return nil, err
	}
	if len(paths) == 1 {
		r, err := Open(paths[0], o)
		if err == nil {
			r.noteMissing(r.ranks)
		}
		return r, err
	}
	parts := make([]part, 0, len(paths))
	for _, path := range paths {
		p, err := openPart(path, o)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return join(parts, o)
}

type part struct {
	path    string
	kind    Kind
	topK    int
	weights bool
	ranks   []int
	notes   []string
}

func openPart(path string, o Options) (part, error) {
	r, err := Open(path, o)
	if err != nil {
		return part{}, err
	}
	return part{path, r.Kind, r.TopK, r.Weights, r.ranks, r.notes}, r.Close()
}

func join(parts []part, o Options) (*Reader, error) {
	first := parts[0]
	r := &Reader{Kind: first.kind, TopK: first.topK, Weights: first.weights, layer: o.Layer}
	owner := map[int]string{}
	for _, p := range parts {
		if p.kind != first.kind || p.topK != first.topK || p.weights != first.weights {
			return nil, fmt.Errorf("%s holds %s of top-%d, %s holds %s of top-%d: they are not one recording", first.path, first.kind, first.topK, p.path, p.kind, p.topK)
		}
		for _, rank := range p.ranks {
			if owner[rank] != "" {
				return nil, fmt.Errorf("%s and %s both hold the tokens of rank %d, so they are two recordings; import them one by one", owner[rank], p.path, rank)
			}
			owner[rank] = p.path
			r.ranks = append(r.ranks, rank)
		}
		r.addNotes(p.notes)
	}
	if len(r.ranks) > 0 && len(r.ranks) < len(parts) {
		return nil, errors.New("some files name their rank and others do not, so they are not one recording")
	}
	if len(r.ranks) > 0 {
		slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(a.ranks[0], b.ranks[0]) })
	}
	r.noteMissing(r.ranks)
	r.note("%d files are read as one recording", len(parts))
	r.counts = func() ([]int64, error) { return r.sumParts(parts, o) }
	r.readParts(parts, o)
	return r, nil
}

func (r *Reader) addNotes(notes []string) {
	for _, n := range notes {
		if !slices.Contains(r.notes, n) {
			r.notes = append(r.notes, n)
		}
	}
}

func (r *Reader) noteMissing(ranks []int) {
	if gone := missing(ranks); len(gone) > 0 {
		r.note("ranks %s are missing: their tokens are not counted", joined(gone))
	}
}

func joined(list []int) string {
	var out []string
	for _, n := range list {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ", ")
}

// sumParts adds up the counts of all files. If a file has only the counts of one rank's experts, sumParts does not add
// these counts. It appends them, because each file then has other experts.
func (r *Reader) sumParts(parts []part, o Options) (sum []int64, err error) {
	for _, p := range parts {
		file, err := Open(p.path, o)
		if err != nil {
			return nil, err
		}
		counts, err := file.counts()
		if err = errors.Join(at(p.path, err), file.Close()); err != nil {
			return nil, err
		}
		r.addNotes(file.notes)
		if file.localExperts {
			if sum = append(sum, counts...); len(sum) > MaxExperts {
				return nil, fmt.Errorf("%s: this file and the files before it have more than %d experts", p.path, MaxExperts)
			}
			continue
		}
		if sum == nil {
			sum = make([]int64, len(counts))
		}
		if len(counts) != len(sum) {
			return nil, fmt.Errorf("%s has %d experts, the files before it have %d", p.path, len(counts), len(sum))
		}
		for e, n := range counts {
			if sum[e] += n; sum[e] > maxCount {
				return nil, fmt.Errorf("%s: expert %d: more than %d selections", p.path, e, int64(maxCount))
			}
		}
	}
	return sum, nil
}

func (r *Reader) readParts(parts []part, o Options) {
	var open *Reader
	r.close = func() error {
		if open == nil {
			return nil
		}
		err := open.Close()
		open = nil
		return err
	}
	r.next = func(ids []int32, weights []float32) (int, error) {
		for {
			if open == nil {
				if len(parts) == 0 {
					return 0, io.EOF
				}
				var err error
				if open, err = Open(parts[0].path, o); err != nil {
					return 0, err
				}
				r.path, r.start = open.path, r.row
				parts = parts[1:]
			}
			n, err := open.next(ids, weights)
			if err == io.EOF {
				if bad := r.close(); bad != nil {
					return n, bad
				}
				err = nil
			}
			if n > 0 || err != nil {
				return n, err
			}
		}
	}
}
