package pack

import "testing"

// TestSharedMemoryCountsOnce: states that share an area take the bytes of the largest state, in any
// order. A region without an area takes its own bytes.
func TestSharedMemoryCountsOnce(t *testing.T) {
	// The area takes the larger size, 4096, and the region of 100 bytes takes 256.
	for _, sizes := range [][2]uint64{{512, 4096}, {4096, 512}} {
		p := &Pack{
			dtypes:  make([]dtypeRecord, 1),
			states:  []stateRecord{{Regions: 2}, {FirstRegion: 2, Regions: 1}},
			regions: []regionRecord{{Bytes: sizes[0], Area: 1}, {Bytes: 100}, {Bytes: sizes[1], Area: 1}},
		}
		got := total(p.shared([]bool{true}))
		p.regions = []regionRecord{{}, {}, {}}
		if words := total(p.shared([]bool{true})); got-words != 4096+256 {
			t.Errorf("regions of %d: %d bytes beside the words, want %d", sizes, got-words, 4096+256)
		}
	}
}

// TestIDsOfSurvivors: a pack for survivors has room for the ids of a dispatch and for those of a
// combine. In other packs of layout expert, both use the same room.
func TestIDsOfSurvivors(t *testing.T) {
	p := &Pack{head: header{MaxTokens: 100, TopK: 8}}
	one := p.idBytes() // 100 x 8 ids of 4 bytes are 3200 bytes, 3328 in multiples of 256
	p.head.Flags = flagSurvivors
	if both := p.idBytes(); one != 3328 || both != 2*one {
		t.Errorf("%d and %d bytes, want 3328 and twice that", one, both)
	}
}

// TestOutputsOverNodes: over several nodes a call has room for the experts' rows, which the network reads.
func TestOutputsOverNodes(t *testing.T) {
	p := overNodes(t, 2)
	rows := p.dtypes[0].MaxRows * uint64(p.head.Hidden) * 2
	for _, a := range p.Areas() {
		if a.For == forReturn && a.Bytes < rows {
			t.Errorf("%s take %d bytes, fewer than the %d bytes of the experts' rows", a.For, a.Bytes, rows)
		}
	}
	before := p.HeapBytes(1)
	p.Problem.Nodes = 1 // the same kernels without that room
	if room := before - p.HeapBytes(1); room < int64(rows) {
		t.Errorf("several nodes add %d bytes, fewer than the %d bytes of the experts' rows", room, rows)
	}
}
