//go:build cuda

package drive

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// gather downloads pieces of a part of the heap. The next gather of the same part overwrites the returned pieces.
func (r *rankSet) gather(rank int, part string, offsets []int, bytes int) ([][]byte, error) {
	if len(offsets) == 0 {
		return nil, nil
	}
	s, out := &r.local[rank], make([][]byte, len(offsets))
	spans, places := spansOf(offsets, bytes)
	err := s.gpu.do(func() error {
		end := spans[len(spans)-1]
		buf, err := s.stage(part, end.at+end.bytes)
		if err != nil {
			return err
		}
		for _, p := range spans {
			if err := cu.MemcpyDtoHAsync(unsafe.Pointer(&buf[p.at]), r.at(rank, part)+cu.DevicePtr(p.from), int64(p.bytes), s.stream); err != nil {
				return err
			}
		}
		for i, at := range places {
			out[i] = buf[at : at+bytes]
		}
		return s.stream.Synchronize()
	})
	if err != nil {
		return nil, fmt.Errorf("rank %d: download %s: %w", rank, part, err)
	}
	return out, nil
}

// mostStaging is the largest pinned buffer of a part, in bytes.
const mostStaging = 256 << 20

// stage returns `need` bytes of host memory for pieces of a part.
func (s *localRank) stage(part string, need int) ([]byte, error) {
	if need > mostStaging {
		return make([]byte, need), nil
	}
	if len(s.staging[part]) < need {
		buf, err := s.gpu.takeStaging(need)
		if err != nil {
			return nil, err
		}
		if s.staging == nil {
			s.staging = map[string][]byte{}
		}
		s.gpu.giveStaging(s.staging[part])
		s.staging[part] = buf
	}
	return s.staging[part][:need], nil
}
