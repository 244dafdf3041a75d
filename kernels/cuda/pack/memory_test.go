package pack

import (
	"slices"
	"testing"

	"github.com/epbench/epbench/tune/ep"
)

// TestMemoryByHand adds up a pack for 16 ranks in layout rank:packed. Parts are aligned to 256 bytes.
func TestMemoryByHand(t *testing.T) {
	p := &Pack{
		Data:    []byte("\x00slots\x00return\x00"),
		head:    header{Hidden: 512, MaxTokens: 100, TopK: 8, Groups: 64},
		dtypes:  []dtypeRecord{{OutBytes: 1000, ScaleBytes: 300}},
		states:  []stateRecord{{Regions: 1, Counters: 100, Numbers: [2]uint16{1, 2}}, {FirstRegion: 1, Regions: 1, Counters: 100, Numbers: [2]uint16{1, 2}}},
		regions: []regionRecord{{Bytes: 1000, Name: 1}, {Bytes: 300, Name: 7}},
	}
	p.head.Sections[secStrings] = section{Count: uint32(len(p.Data)), Stride: 1}
	p.DTypes = []ep.DType{ep.BF16}
	p.Problem = ep.Problem{Ranks: 16, Nodes: 1, Hidden: 512, Experts: 64, TopK: 8, MaxTokens: 100, Layout: ep.LayoutRankPacked}
	const (
		ids     = 16 * 100 * 8 * 4                       // of 1,600 rows, a multiple of 256
		outputs = 1024 + 512 + 512 + ids + 13312 + ids   // rows, scales, 65 offsets, ids, sources (1,600 * 8 + 100 * 4), weights
		words   = 512 + 2*4*32*192 + 512                 // debug mode; call numbers; 100 counters
		around  = 256 + 256 + 256 + 16*16*(16+4+1+8*100) // control data, abort word, epcomm_announce
	)
	want := []Area{{forOutputs, outputs}, {forReturn, 512}, {forWords, words}, {forTokens, 1024}}
	if got := p.Areas(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := p.HeapBytes(3); got != around+3*(outputs+512+words+1024) {
		t.Errorf("3 calls in flight: %d bytes, want %d", got, around+3*(outputs+512+words+1024))
	}
	p.states[1].Numbers = [2]uint16{}
	if more := p.Areas()[2].Bytes - words; more != 2*4*32*192+512 {
		t.Errorf("a state with its own numbers adds %d bytes", more)
	}
	p.Problem.Layout = ep.LayoutRank
	one := p.HeapBytes(0)
	p.Problem.Nodes = 2
	if two := p.HeapBytes(0); one != 512 || two != 512+16*16 {
		t.Errorf("without calls, one node needs %d bytes and two nodes need %d; want 512 and 768", one, two)
	}
}

// TestSharedMemoryCountsOnce: an area has the bytes of its largest state.
func TestSharedMemoryCountsOnce(t *testing.T) {
	// The area takes 4096 bytes. The region of 100 bytes takes 256.
	for _, sizes := range [][2]uint64{{512, 4096}, {4096, 512}} {
		p := &Pack{
			dtypes:  make([]dtypeRecord, 1),
			states:  []stateRecord{{Regions: 2}, {FirstRegion: 2, Regions: 1}},
			regions: []regionRecord{{Bytes: sizes[0], Area: 1}, {Bytes: 100}, {Bytes: sizes[1], Area: 1}},
		}
		got := total(p.shared([]bool{true}))
		p.regions = []regionRecord{{}, {}, {}}
		if words := total(p.shared([]bool{true})); got-words != 4096+256 {
			t.Errorf("regions of %d bytes: %d bytes without the words, want %d", sizes, got-words, 4096+256)
		}
	}
}

// TestIDsOfSurvivors checks that only a pack for survivors has copies of the ids, one for dispatch and one for combine.
func TestIDsOfSurvivors(t *testing.T) {
	p := &Pack{head: header{MaxTokens: 100, TopK: 8}}
	none := p.idBytes()
	p.head.Flags = flagSurvivors
	if both := p.idBytes(); none != 0 || both != 2*3328 {
		t.Errorf("%d and %d bytes, want 0 and 6656", none, both)
	}
}

// TestOutputsOverNodes: the network reads the experts' rows, so a call has room for them.
func TestOutputsOverNodes(t *testing.T) {
	p := overNodes(t, 2)
	rows := p.dtypes[0].MaxRows * uint64(p.head.Hidden) * 2
	for _, a := range p.Areas() {
		if a.For == forReturn && a.Bytes < rows {
			t.Errorf("%s take %d bytes, fewer than the %d bytes of the experts' rows", a.For, a.Bytes, rows)
		}
	}
	before := p.HeapBytes(1)
	p.Problem.Nodes = 1
	if room := before - p.HeapBytes(1); room < int64(rows) {
		t.Errorf("several nodes add %d bytes, fewer than the %d bytes of the experts' rows", room, rows)
	}
}
