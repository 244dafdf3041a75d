package pack

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/epbench/epbench/tune/bounded"
	"github.com/epbench/epbench/tune/ep"
)

// Pack is a decoded pack. Its digest was checked.
type Pack struct {
	Data   []byte
	Digest string // SHA-256 in hex digits
	ABI    ep.ABI // build of the kernels
	Arch   string // such as sm_90a
	manifest
	head    header
	hosts   hostsHeader
	dtypes  []dtypeRecord
	states  []stateRecord
	regions []regionRecord
	modules []moduleRecord
}

const maxPackBytes = 1 << 30

const makesPack = "epbench pack -o FILE makes a pack"

func ReadFile(name string) (*Pack, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, ep.FileError(name, err, makesPack)
	}
	if info.Size() > maxPackBytes {
		return nil, fmt.Errorf("%s: %d bytes are too many for a pack, which has at most %d", name, info.Size(), maxPackBytes)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, ep.FileError(name, err, makesPack)
	}
	p, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// Read decodes a pack and checks its digest. Only the C library checks the content of all records.
func Read(data []byte) (*Pack, error) {
	p := &Pack{Data: data}
	size := binary.Size(p.head)
	if len(data) < size {
		return nil, fmt.Errorf("pack: %d bytes are fewer than the %d of a header; %s", len(data), size, makesPack)
	}
	_, _ = binary.Decode(data, binary.LittleEndian, &p.head) // there are enough bytes
	h := p.head
	switch sum := sha256.Sum256(data[digestFrom:]); {
	case string(h.Magic[:]) != Magic:
		return nil, fmt.Errorf("pack: begins with %q, not with %s; %s", h.Magic[:], Magic, makesPack)
	case h.Version < 1 || h.Version > Version || int(h.HeaderBytes) != size && int(h.HeaderBytes) != size+binary.Size(p.hosts):
		return nil, fmt.Errorf("pack: format %d, but this program reads formats 1 to %d; make the pack again with epbench pack", h.Version, Version)
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

func (p *Pack) text(at uint32) string {
	text, err := p.bytes(secStrings)
	if err != nil || uint64(at) >= uint64(len(text)) {
		return ""
	}
	word, _, _ := strings.Cut(string(text[at:]), "\x00")
	return word
}

// abi returns the builds of the kernels. Old packs have a single hash for all kernels.
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

// Shape returns the pack's problem, without Op, Dispatch and Tokens.
func (p *Pack) Shape() ep.Problem { return p.Problem }

// Variants returns the number and the bytes of the binaries.
func (p *Pack) Variants() (n int, bytes int64) {
	for _, m := range p.modules {
		bytes += int64(m.Bytes)
	}
	return len(p.modules), bytes
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
