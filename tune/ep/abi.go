package ep

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ABI names the builds of the kernels in a table row or a run. It holds one word for each kernel:
// "combine_ll=1f2e,dispatch_ll=2.9c0d". A word has the kernel's revision, a dot and a hash of its sources.
// Without a dot the revision is 1. The revision changes only if the meaning of a parameter changes, so measurements of
// the same revision stay usable.
//
// A word without a kernel's name stands for every kernel. "" is an unknown build.
type ABI string

// Word returns the word of a kernel from its revision and a hash of its sources.
func Word(revision int, hash string) string {
	if revision <= 1 {
		return hash
	}
	return strconv.Itoa(revision) + "." + hash
}

func revisionOf(word string) string {
	if revision, _, ok := strings.Cut(word, "."); ok {
		return revision
	}
	return "1"
}

// NewABI returns the ABI that has the given word for each kernel.
func NewABI(words map[string]string) ABI {
	var out []string
	for _, kernel := range slices.Sorted(maps.Keys(words)) {
		out = append(out, kernel+"="+words[kernel])
	}
	return ABI(strings.Join(out, ","))
}

func (a ABI) list() map[string]string {
	if known, ok := wholeBuilds[a]; ok {
		return known
	}
	out := map[string]string{}
	for _, part := range strings.Split(string(a), ",") {
		kernel, word, ok := strings.Cut(part, "=")
		if !ok || kernel == "" || word == "" || strings.ContainsAny(part, " ") {
			return nil
		}
		out[kernel] = word
	}
	return out
}

// Short returns a short form for people.
func (a ABI) Short() string {
	if list := a.list(); list != nil && len(list) > 1 {
		sum := sha256.Sum256([]byte(NewABI(list)))
		return fmt.Sprintf("%d kernels, %x", len(list), sum[:6])
	}
	return fmt.Sprintf("%.36s", string(a))
}

// Of returns the word of one kernel, or "".
func (a ABI) Of(kernel string) string {
	if list := a.list(); list != nil {
		return list[kernel]
	}
	return string(a)
}

// Kernels lists the kernels that an ABI names.
func (a ABI) Kernels() []string { return slices.Sorted(maps.Keys(a.list())) }

// For returns the words of a config's kernel, or of a pair's two kernels.
func (a ABI) For(c Config) ABI { return a.Part(strings.Split(c.Kernel, "+")...) }

// Part returns the words of the given kernels.
func (a ABI) Part(kernels ...string) ABI {
	list := a.list()
	if list == nil {
		return a
	}
	words := map[string]string{}
	for _, kernel := range kernels {
		if word, ok := list[kernel]; ok {
			words[kernel] = word
		}
	}
	return NewABI(words)
}

// AllKernels is an entry of a list of kernels. It means that the list has every kernel.
const AllKernels = "all kernels"

// Changed lists the kernels for which two ABIs have different words.
func (a ABI) Changed(b ABI) []string {
	x, y := a.list(), b.list()
	switch {
	case a == b || a == "" || b == "":
		return nil
	case x == nil || y == nil:
		return []string{AllKernels}
	}
	var out []string
	for kernel, word := range x {
		if other, ok := y[kernel]; ok && other != word {
			out = append(out, kernel)
		}
	}
	slices.Sort(out)
	return out
}

// Serves reports whether the build `a` has every word of `row`, the ABI of a table row. In `a`, the word of a removed
// kernel has no hash, such as "2.". It never matches, because the build no longer contains the kernel.
func (a ABI) Serves(row ABI) bool {
	return a.has(row, func(here, there string) bool { return here == there && !strings.HasSuffix(here, ".") })
}

// Accepts reports whether the build `a` has every kernel of `row` with the same revision.
func (a ABI) Accepts(row ABI) bool {
	return a.has(row, func(here, there string) bool { return here != "" && revisionOf(here) == revisionOf(there) })
}

func (a ABI) has(row ABI, alike func(here, there string) bool) bool {
	if row == "" || row == a {
		return true
	}
	have, need := a.list(), row.list()
	if have == nil || need == nil {
		return false
	}
	for kernel, word := range need {
		if !alike(have[kernel], word) {
			return false
		}
	}
	return true
}

// Overlay returns the words of both ABIs. A word of b replaces a's word for the same kernel.
func (a ABI) Overlay(b ABI) ABI {
	x, y := a.list(), b.list()
	if x == nil || y == nil {
		return b
	}
	out := maps.Clone(x)
	maps.Copy(out, y)
	return NewABI(out)
}

// wholeBuilds gives the words of each kernel for builds that were recorded as one hash. Its entries never change.
var wholeBuilds = map[ABI]map[string]string{
	"d294d935a5eed5afb3e2ed0ca8a3790381cb43ebab11ba520e232508de20f421": {
		"combine": "4918d0c5331f1a28", "combine_final": "af3539eb1870eba3", "combine_ll": "fb906969f6f0bec3",
		"dispatch": "dd2e2c9c54ff62e1", "dispatch_final": "007e8fbc7ad8de3c", "dispatch_ll": "7370039ed47227d3",
	},
}
