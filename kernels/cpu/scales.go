package cpu

import (
	"github.com/epbench/epbench/kernels/dtype"
	"github.com/epbench/epbench/tune/ep"
)

// placeScales stores one row's scales in the dtype's layout. NVFP4 has tiles of 128 rows by 4 scales.
func (r *rank) placeScales(s *shape, group, row int, scales []byte) {
	l := &s.encoding
	switch l.DType {
	case ep.FP8:
		for g := range l.Scales {
			copy(r.scales[4*dtype.FP8Scale(s.Problem, s.maxRows, row, g):][:4], scales[4*g:])
		}
	case ep.MXFP4:
		copy(r.scales[row*l.Scales:][:l.Scales], scales)
	case ep.NVFP4:
		at := r.scaleRow(s, group, row)
		for g := 0; g < l.Scales; g += 4 {
			copy(r.scales[at+g/4*512:][:4], scales[g:min(g+4, l.Scales)])
		}
	}
}

// scaleRow returns the offset of a row's first four NVFP4 scales. The next four are 512 bytes later.
func (r *rank) scaleRow(s *shape, group, row int) int {
	start := int(r.offsets[group])
	block := start/dtype.ScaleBlockRows + int(r.blocks[group])
	i := row - start
	columns := (s.encoding.Scales + 3) / 4
	return (block+i/128)*columns*512 + i%32*16 + i%128/32*4
}

// clearScaleTail zeroes NVFP4 scales in a group's last block. If `shared` is true, it zeroes only the scales after the
// group's last row. Otherwise it zeroes all scales of the block.
func (r *rank) clearScaleTail(s *shape, block, rows int, shared bool) {
	if s.encoding.DType != ep.NVFP4 || rows%dtype.ScaleBlockRows == 0 {
		return
	}
	columns := (s.encoding.Scales + 3) / 4
	last := r.scales[(block+rows/128)*columns*512:][:columns*512]
	if !shared {
		clear(last)
		return
	}
	for i := rows % 128; i < 128; i++ {
		for c := range columns {
			clear(last[c*512+i%32*16+i/32*4:][:4])
		}
	}
}

func (w *worker) placeShared(l launch, i, token int, payload []byte) {
	s, r := &w.s.shape, w.r
	l.write(r.out[i*s.encoding.Payload:][:s.encoding.Payload], payload[:s.encoding.Payload])
	if s.encoding.Group > 0 {
		r.placeScales(s, 0, i, payload[s.encoding.ScaleOffset():])
	}
	r.srcInfo[2*i], r.srcInfo[2*i+1] = int32(token), -1
}

func (r *rank) scalesOf(s *shape, group, row int, dst []byte) {
	l := &s.encoding
	for g := 0; g < l.Scales; g++ {
		switch l.DType {
		case ep.FP8:
			copy(dst[4*g:4*g+4], r.scales[4*dtype.FP8Scale(s.Problem, s.maxRows, row, g):])
		case ep.MXFP4:
			dst[g] = r.scales[row*l.Scales+g]
		case ep.NVFP4:
			dst[g] = r.scales[r.scaleRow(s, group, row)+g/4*512+g%4]
		}
	}
}
