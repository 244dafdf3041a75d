package pack

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/epbench/epbench/kernels/cuda/declare"
	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/ep"
)

// Pack is a pack whose digest and records were checked.
type Pack struct {
	Data   []byte // the file
	Digest string // SHA-256 of the content, in hex digits
	ABI    ep.ABI // build of the kernels
	Arch   string // architecture of the binaries, such as sm_90a
	manifest
	head    header
	hosts   hostsHeader // zero in a pack for one host
	dtypes  []dtypeRecord
	states  []stateRecord
	regions []regionRecord
	modules []moduleRecord
}

// maxPackBytes is the largest size of a file that ReadFile reads.
const maxPackBytes = 1 << 30

// ReadFile reads a pack from a file.
func ReadFile(name string) (*Pack, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPackBytes {
		return nil, fmt.Errorf("%s: %d bytes are too many for a pack, which has at most %d", name, info.Size(), maxPackBytes)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	p, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// Read checks a pack's digest and reads the parts that `epbench pack show` prints. It does not check
// all records; the C library does.
func Read(data []byte) (*Pack, error) {
	p := &Pack{Data: data}
	size := binary.Size(p.head)
	if len(data) < size {
		return nil, fmt.Errorf("pack: %d bytes are fewer than the %d of a header", len(data), size)
	}
	_, _ = binary.Decode(data, binary.LittleEndian, &p.head) // there are enough bytes
	h := p.head
	switch sum := sha256.Sum256(data[digestFrom:]); {
	case string(h.Magic[:]) != Magic:
		return nil, fmt.Errorf("pack: begins with %q, not with %s", h.Magic[:], Magic)
	case h.Version != Version || int(h.HeaderBytes) != size && int(h.HeaderBytes) != size+binary.Size(p.hosts):
		return nil, fmt.Errorf("pack: format %d, but this program reads format %d; make the pack again with epbench pack", h.Version, Version)
	case h.FileBytes != uint64(len(data)):
		return nil, fmt.Errorf("pack: the file has %d bytes, but its header says %d; the file is truncated", len(data), h.FileBytes)
	case sum != h.Digest:
		return nil, fmt.Errorf("pack: the content does not match its digest; the file is damaged or was edited")
	}
	if int(h.HeaderBytes) > size {
		if _, err := binary.Decode(data[size:], binary.LittleEndian, &p.hosts); err != nil {
			return nil, fmt.Errorf("pack: %d bytes end within the header", len(data))
		}
	}
	p.Digest = hex.EncodeToString(h.Digest[:])
	p.Arch = strings.TrimRight(string(h.Arch[:]), "\x00")
	var errs [6]error
	p.dtypes, errs[0] = records[dtypeRecord](p, secDTypes)
	p.states, errs[1] = records[stateRecord](p, secStates)
	p.regions, errs[2] = records[regionRecord](p, secRegions)
	p.modules, errs[3] = records[moduleRecord](p, secModules)
	var text []byte
	text, errs[4] = p.bytes(secManifest)
	p.ABI, errs[5] = p.abi()
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, err
	}
	if err := cmp.Or(bounded.New(int64(len(data))).JSON("pack: manifest", text), json.Unmarshal(text, &p.manifest)); err != nil {
		return nil, fmt.Errorf("pack: manifest: %w", err)
	}
	return p, p.check()
}

// check compares the manifest with the records that the C library reads.
func (p *Pack) check() error {
	if len(p.DTypes) != len(p.dtypes) || len(p.DTypes) == 0 {
		return fmt.Errorf("pack: %d dtypes, but the manifest names %d", len(p.dtypes), len(p.DTypes))
	}
	for _, d := range p.DTypes {
		q := p.of(d)
		q.Op, q.Tokens = ep.Dispatch, q.MaxTokens
		if err := q.Validate(); err != nil {
			return fmt.Errorf("pack: manifest: %w", err)
		}
	}
	for i, s := range p.states {
		if uint64(s.FirstRegion)+uint64(s.Regions) > uint64(len(p.regions)) || int(s.DType) >= len(p.dtypes) {
			return fmt.Errorf("pack: state %d names a region or dtype that does not exist", i)
		}
	}
	return nil
}

// abi returns the build of the kernels. Old packs have one hash for all kernels; newer packs have a word
// for each kernel.
func (p *Pack) abi() (ep.ABI, error) {
	if p.head.Kernels == 0 {
		return ep.ABI(hex.EncodeToString(p.head.ABI[:])), nil
	}
	text, err := p.bytes(secStrings)
	if err != nil {
		return "", err
	}
	at := min(uint64(p.head.Kernels), uint64(len(text)))
	word, _, ok := strings.Cut(string(text[at:]), "\x00")
	if !ok {
		return "", fmt.Errorf("pack: the string with the builds of the kernels has no end")
	}
	return ep.ABI(word), nil
}

func (p *Pack) bytes(i int) ([]byte, error) {
	s := p.head.Sections[i]
	n := uint64(s.Count) * uint64(recordBytes[i])
	if int(s.Stride) != recordBytes[i] || s.Offset > uint64(len(p.Data)) || n > uint64(len(p.Data))-s.Offset {
		return nil, fmt.Errorf("pack: section %d lies outside the file", i)
	}
	return p.Data[s.Offset : s.Offset+n], nil
}

func records[T any](p *Pack, i int) ([]T, error) {
	b, err := p.bytes(i)
	if err != nil {
		return nil, err
	}
	out := make([]T, p.head.Sections[i].Count)
	_, err = binary.Decode(b, binary.LittleEndian, out)
	return out, err
}

// Shape returns the problem that the pack is for. Its Op, Dispatch and Tokens have no meaning.
func (p *Pack) Shape() ep.Problem { return p.Problem }

// Variants returns the number of device binaries, and the bytes of all of them.
func (p *Pack) Variants() (n int, bytes int64) {
	for _, m := range p.modules {
		bytes += int64(m.Bytes)
	}
	return len(p.modules), bytes
}

// heapAlign is the boundary on which every part of the heap starts.
const heapAlign = 256

func aligned(n uint64) uint64 { return (n + heapAlign - 1) / heapAlign * heapAlign }

// HeapBytes returns the bytes of device memory of one rank, for `inFlight` calls in flight and these
// dtypes. Without dtypes it is for all dtypes of the pack.
func (p *Pack) HeapBytes(inFlight int, dtypes ...ep.DType) int64 {
	chosen := make([]bool, len(p.dtypes))
	for i, d := range p.DTypes {
		chosen[i] = len(dtypes) == 0 || slices.Contains(dtypes, d)
	}
	return int64(p.aroundBytes() + uint64(inFlight)*p.slotBytes(chosen))
}

// aroundBytes returns the bytes that do not depend on the number of calls in flight: control data and
// the abort word; on several nodes also the table of the ranks' heaps; in layout rank:packed also the
// data that epcomm_announce and epcomm_return_weights exchange.
func (p *Pack) aroundBytes() uint64 {
	q := p.Problem
	switch {
	case q.Nodes > 1:
		return 2*heapAlign + aligned(16*uint64(q.Ranks))
	case q.Layout == ep.LayoutRankPacked:
		words := q.Ranks + q.LocalExperts() + 1
		return 2*heapAlign + aligned(256+uint64(16*q.Ranks*(words+q.MaxTokens*q.TopK)))
	}
	return 2 * heapAlign
}

// of returns the pack's problem with dispatch dtype d.
func (p *Pack) of(d ep.DType) ep.Problem {
	q := p.Problem
	q.Dispatch = d
	return q
}

// slotBytes returns the bytes of memory of one call in flight. native/epcomm/src/heap.c computes the
// same.
func (p *Pack) slotBytes(chosen []bool) uint64 {
	var out, scales, y, bytes uint64
	var index declare.Index
	h := p.head
	for i, d := range p.dtypes {
		if chosen[i] {
			out, scales = max(out, d.OutBytes), max(scales, d.ScaleBytes)
			if p.Problem.Nodes > 1 { // NVSHMEM reads the experts' outputs, so they are on the heap too
				y = max(y, d.MaxRows*uint64(h.Hidden)*2)
			}
			of := declare.IndexOf(p.of(p.DTypes[i]))
			index.ExpertIDs, index.SrcInfo = max(index.ExpertIDs, of.ExpertIDs), max(index.SrcInfo, of.SrcInfo)
			index.ScaleOffsets = max(index.ScaleOffsets, of.ScaleOffsets)
		}
	}
	ids := 4 * uint64(h.MaxTokens) * uint64(h.TopK)
	switch {
	case h.Flags&flagSurvivors != 0: // dispatch and combine each have ids without lost ranks
		bytes += aligned(ids)
	case p.Problem.Layout.Kind() != "expert": // the kernels read the caller's ids, of 64 bits too
		ids = 0
	}
	agree := 16*max(uint64(p.Problem.Ranks), 8) + 8 // words that debug mode compares between ranks
	for _, n := range []uint64{agree, ids, out, scales, y, 4 * (uint64(h.Groups) + 1),
		uint64(index.ExpertIDs), uint64(index.SrcInfo), uint64(index.ScaleOffsets)} {
		bytes += aligned(n)
	}
	for _, s := range p.states {
		if !chosen[s.DType] {
			continue
		}
		bytes += 2*aligned(4*declare.RoundWords) + aligned(4*uint64(s.Counters))
		for _, r := range p.regions[s.FirstRegion : s.FirstRegion+s.Regions] {
			bytes += aligned(r.Bytes)
		}
	}
	return bytes
}

// Answers lists the pack's answers for one dtype, precision, purpose and class.
func (p *Pack) Answers(d ep.DType, reduced bool, purpose ep.Op, c ep.Class) []Answer {
	for _, l := range p.Lookups {
		if l.DType == d && l.Reduced == reduced && l.Purpose == purpose && l.Class == c {
			return l.Runs
		}
	}
	return nil
}
