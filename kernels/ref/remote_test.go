package ref

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// stored holds memory by rank and part.
type stored []map[string][]byte

func bytesOf(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

func store(o *Oracle, e *Epilogue) stored {
	var out stored
	for rank, routing := range o.w.Ranks {
		d := faithful(o, rank)
		m := map[string][]byte{PartRowOffsets: bytesOf(d.RowOffsets), PartExpertIDs: bytesOf(d.ExpertIDs), PartSrcInfo: bytesOf(d.SrcInfo),
			PartScaleOffsets: bytesOf(d.ScaleOffsets), PartScales: d.Scales}
		for row := range d.MaxRows {
			m[PartOut] = append(m[PartOut], d.Payload(row)...)
		}
		for t := range routing.Tokens {
			s := o.CombineRow(rank, t, NoPartial)
			e.apply(s)
			m[PartCombined] = append(m[PartCombined], bytesOf(s.Want)...)
		}
		out = append(out, m)
	}
	return out
}

func (s stored) read(rank int, part string, bytes int, offsets ...int) ([][]byte, error) {
	var out [][]byte
	for _, at := range offsets {
		out = append(out, slices.Clone(s[rank][part][at:at+bytes]))
	}
	return out, nil
}

// remote returns a Remote on s. Each read clears the bytes that the read before it returned.
func remote(o *Oracle, s stored) *Remote {
	var mu sync.Mutex
	last := map[string][][]byte{}
	return NewRemote(o, dtype.MaxRows(o.w.Problem), func(rank int, part string, bytes int, offsets ...int) ([][]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		key := fmt.Sprint(rank, part)
		for _, piece := range last[key] {
			clear(piece)
		}
		out, err := s.read(rank, part, bytes, offsets...)
		last[key] = out
		return out, err
	})
}

// TestRemote: a changed byte is noticed.
func TestRemote(t *testing.T) {
	for _, f := range ep.DTypes() {
		for _, whole := range []int{wholeElements, 0} {
			o := New(tiny(func(p *ep.Problem) { p.Dispatch = f }), 1)
			memory := store(o, nil)
			r := remote(o, memory)
			r.whole = whole
			for _, op := range ep.Exchanges() {
				if v, err := r.Judge(op, Compare{Ordered: true}, Compare{Bits: true}); err != nil || !v.OK() || v.Rows == 0 {
					t.Fatalf("%s %s: %+v, %v", f, op, v, err)
				}
			}
			for _, part := range slices.Sorted(maps.Keys(memory[1])) {
				if f != ep.NVFP4 && part == PartScaleOffsets || f == ep.BF16 && part == PartScales {
					continue
				}
				memory[1][part][0] ^= 0x40
				if v, err := r.Judge(ep.Pair, Compare{}, Compare{}); err != nil || v.OK() || !strings.HasPrefix(v.Detail, "rank 1 ") {
					t.Errorf("%s, damaged %s: %+v, %v", f, part, v, err)
				}
				memory[1][part][0] ^= 0x40
			}
		}
	}
}

func TestJoined(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6}
	if got := contiguous(Pieces(data, 2)); !slices.Equal(got, data) || &got[0] != &data[0] {
		t.Errorf("%v, or copied", got)
	}
	for _, c := range []struct {
		pieces [][]byte
		want   []byte
	}{
		{nil, nil},
		{[][]byte{data[0:2], data[4:6]}, []byte{1, 2, 5, 6}},
		{[][]byte{data[2:4], data[0:2]}, []byte{3, 4, 1, 2}},
		{[][]byte{data[0:2:2], data[2:4]}, []byte{1, 2, 3, 4}},
		{[][]byte{data[2:2], data[2:4]}, []byte{3, 4}},
	} {
		if got := contiguous(c.pieces); !slices.Equal(got, c.want) {
			t.Errorf("%v of %v, want %v", got, c.pieces, c.want)
		}
	}
}

func TestRemoteCounts(t *testing.T) {
	o := New(tiny(nil), 1)
	memory := store(o, nil)
	r := remote(o, memory)
	if v, err := r.Judge(ep.Combine, Compare{}, Compare{}); err != nil || v.Rows != 4 {
		t.Errorf("%+v, %v: want the 4 combined tokens", v, err)
	}
	if v, err := r.Judge(ep.Pair, Compare{}, Compare{}); err != nil || v.Rows != 4+7 {
		t.Errorf("%+v, %v: want 4 combined tokens and 7 delivered rows", v, err)
	}
}

func TestRemoteErrors(t *testing.T) {
	o := New(tiny(nil), 1)
	memory, broken := store(o, nil), errors.New("broken")
	for _, part := range []string{PartOut, PartRowOffsets, PartCombined} {
		r := NewRemote(o, dtype.MaxRows(o.w.Problem), func(rank int, p string, bytes int, offsets ...int) ([][]byte, error) {
			if p == part {
				return nil, broken
			}
			return memory.read(rank, p, bytes, offsets...)
		})
		for _, r.whole = range []int{wholeElements, 0} {
			if _, err := r.Judge(ep.Pair, Compare{}, Compare{}); !errors.Is(err, broken) {
				t.Errorf("%s cannot be read: %v", part, err)
			}
		}
	}
}

func TestRemoteProbe(t *testing.T) {
	for _, whole := range []int{wholeElements, 0} {
		o := New(tiny(nil), 1)
		r := remote(o, store(o, nil))
		r.whole = whole
		probeAll(t, o, r)
	}
}

func probeAll(t *testing.T, o *Oracle, r *Remote) {
	t.Helper()
	if _, err := r.Probe(0, 0, 0); err == nil {
		t.Error("Probe returned a row before Judge was called")
	}
	if _, err := r.Judge(ep.Pair, Compare{}, Compare{}); err != nil {
		t.Fatal(err)
	}
	token := make([]uint16, o.w.Problem.Hidden)
	o.w.Token(0, 2, token)
	for k, want := range map[int][]uint16{-1: o.CombineRow(0, 2, NoPartial).Want, 0: token, 1: token} {
		if got, err := r.Probe(0, 2, k); err != nil || !slices.Equal(got, want) {
			t.Errorf("k %d: %v", k, err)
		}
	}
	for _, at := range [][3]int{{2, 0, 0}, {-1, 0, 0}, {0, 3, 0}, {0, -1, -1}, {0, 0, 2}, {0, 1, 1}} {
		if _, err := r.Probe(at[0], at[1], at[2]); err == nil {
			t.Errorf("Probe returned a row for %v, which does not exist", at)
		}
	}
	r.Forget()
	if _, err := r.Probe(0, 0, 0); err == nil {
		t.Error("Probe returned a row after Forget")
	}
}

func TestEpilogue(t *testing.T) {
	bias := make([]uint16, 128)
	for i := range bias {
		bias[i] = BF16(float32(i%7) + 1)
	}
	for name, e := range map[string]*Epilogue{"scale": {Scale: 0.5}, "bias": {Bias: bias}} {
		o := New(tiny(nil), 1)
		r := remote(o, store(o, e))
		if v, err := r.Judge(ep.Combine, Compare{}, Compare{Epilogue: e}); err != nil || !v.OK() {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if v, err := r.Judge(ep.Combine, Compare{}, Compare{}); err != nil || v.Wrong != 4 {
			t.Errorf("%s, judged without the epilogue: %+v, %v", name, v, err)
		}
	}
}
